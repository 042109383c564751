//! Objects that are handed to the kernel, which reads and writes them without this client.
//!
//! An object is of the file system that the node had when it handed it out. After the node, or its file system, failed
//! and came back the file may be another object: what goes on writing to the old one writes where nobody looks again,
//! and no fsync of the node's says so.
//!
//! **Invariant:** what was written through a [`Handed`] counts as unconfirmed until a sync that began later, and
//! [`Client::is_the_file`] after it, have both succeeded.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::Ino;
use rustix::io::Errno;

use super::{Client, Result, Since};

/// An object that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    since: Since,
    /// Its device and number; `None`: a process from before these were noted was given it.
    object: Option<(u64, u64)>,
}

impl Handed {
    /// Its device and number, for a successor.
    pub fn object(&self) -> Option<(u64, u64)> {
        self.object
    }

    /// Whether a former process was given it, and this one has not asked the node yet.
    pub fn is_inherited(&self) -> bool {
        self.since.is_before_all()
    }
}

impl Client {
    /// The file itself, where the whole of it is one object on this machine and the kernel keeps the capacity.
    ///
    /// # Errors
    /// ENOTSUP where that is not so.
    pub fn object(&self, ino: Ino) -> Result<OwnedFd> {
        self.object_since(ino).map(|(object, _)| object)
    }

    fn object_since(&self, ino: Ino) -> Result<(OwnedFd, Since)> {
        if self.layout.fragments > 1 {
            return Err(Errno::NOTSUP);
        }
        self.nodes.descriptor(self.home, self.id(), ino)
    }

    /// The file itself, for the kernel.
    ///
    /// # Errors
    /// As [`Client::object`].
    pub fn hand_out(&self, ino: Ino) -> Result<(OwnedFd, Handed)> {
        let (object, since) = self.object_since(ino)?;
        let handed = Handed { since, object: Some(identity(object.as_fd())?) };
        Ok((object, handed))
    }

    /// An object that is had from the node after this counts as had now.
    pub fn now(&self) -> Since {
        self.nodes.since(self.home)
    }

    /// What the kernel is given, had from the node after `since`.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn handed(&self, object: BorrowedFd<'_>, since: Since) -> Result<Handed> {
        Ok(Handed { since, object: Some(identity(object)?) })
    }

    /// What a former process of this mount gave to the kernel: nothing is certain of it before the node was asked.
    pub fn handed_before(&self, object: Option<(u64, u64)>) -> Handed {
        let verifier = self.nodes.commits().verifier(self.home).unwrap_or_default();
        Handed { since: Since::before_all(verifier), object }
    }

    /// Whether what the kernel has is still the file. Asks the node where that is not certain, and brings `handed` up
    /// to date.
    ///
    /// # Errors
    /// The node cannot say.
    pub fn is_the_file(&self, ino: Ino, handed: &mut Handed) -> Result<bool> {
        if handed.since == self.now() {
            return Ok(true);
        }
        let (object, since) = match self.object_since(ino) {
            Err(Errno::NOENT | Errno::STALE) => return Ok(false),
            asked => asked?,
        };
        let now = identity(object.as_fd())?;
        // Where nobody knows which object it was: the same file system as then has it still.
        let is_same = handed.object.map_or(handed.since.verifier == since.verifier, |then| then == now);
        if is_same {
            *handed = Handed { since, object: Some(now) };
        }
        Ok(is_same)
    }

    /// The kernel may write to the file from now on, through one more handle.
    pub fn kernel_writes(&self, ino: Ino) {
        self.nodes.commits().handed(ino);
    }

    /// The same of a handle that a former process of this mount gave to the kernel.
    pub fn kernel_wrote_before(&self, ino: Ino) {
        self.nodes.commits().handed_before(ino);
    }

    /// One of these handles is closed; `handed`: the object that it had, if that is still the file as far as is known.
    pub fn kernel_wrote(&self, ino: Ino, handed: Option<Handed>) {
        self.nodes.commits().handed_back(ino, handed.map(|handed| handed.since.verifier));
    }
}

fn identity(object: BorrowedFd<'_>) -> Result<(u64, u64)> {
    let stat = rustix::fs::fstat(object)?;
    Ok((stat.st_dev, stat.st_ino))
}
