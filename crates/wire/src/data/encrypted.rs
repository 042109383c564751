//! A TCP connection on which everything after the handshake is encrypted and authenticated, in both directions.
//!
//! ```text
//! record := len:u16le ciphertext[len - 16] tag[16]      AES-256-GCM, numbered from 0 in each direction
//! ```
//!
//! The keys are drawn for this connection alone ([`noise`]): who learns the buffer's key later can read nothing of it.
//!
//! **Invariant:** no byte is given to the reader that was not written by the other side of this connection, as the next
//! one; what is changed, left out, repeated or exchanged on the way is an error, and the connection of no more use.

pub(super) mod noise;
mod records;

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) use noise::Ciphers;
use records::{Opening, Sealing};

/// The stream. Clones share the connection and its numbers.
pub struct Encrypted {
    socket: TcpStream,
    sealing: Arc<Mutex<Sealing>>,
    opening: Arc<Mutex<Opening>>,
}

impl std::fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Encrypted").field(&self.socket).finish()
    }
}

impl Encrypted {
    /// From here on nothing goes over the socket in clear.
    pub(super) fn new(socket: TcpStream, ciphers: Ciphers) -> Encrypted {
        Encrypted {
            socket,
            sealing: Arc::new(Mutex::new(Sealing::new(&ciphers.ours))),
            opening: Arc::new(Mutex::new(Opening::new(&ciphers.theirs))),
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Encrypted> {
        let (sealing, opening) = (self.sealing.clone(), self.opening.clone());
        Ok(Encrypted { socket: self.socket.try_clone()?, sealing, opening })
    }

    /// The socket, for its options and its end.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket, to begin anew on it.
    pub(super) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Whether something is there that the socket knows nothing of any more.
    pub(super) fn is_ready(&self) -> bool {
        held(&self.opening).is_ready()
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        held(&self.opening).read(&mut self.socket, buffer)
    }

    pub(super) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        held(&self.sealing).write(&mut self.socket, slices)
    }
}

/// Where a thread panicked in the midst of a record what follows does not fit, which the other side finds.
fn held<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsFd for Encrypted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Encrypted> for OwnedFd {
    fn from(encrypted: Encrypted) -> OwnedFd {
        encrypted.socket.into()
    }
}

#[cfg(test)]
mod tests;
