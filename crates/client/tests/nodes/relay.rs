//! Somebody in between: all connections to the storage nodes go through him. He keeps what he reads, and has his way
//! with the records of encrypted ones.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is done to a record, and perhaps to the one that comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prank {
    /// A bit of it is flipped.
    Flip,
    /// Only its first half arrives.
    Cut,
    /// It arrives twice.
    Repeat,
    /// It does not arrive.
    LeaveOut,
    /// It arrives after the next one.
    Exchange,
}

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    Node,
    Client,
}

#[derive(Default)]
struct State {
    heard: Vec<u8>,
    /// To be played on the next record that is so long at least.
    prank: Option<(Towards, Prank, usize)>,
    played: usize,
    /// Those that are open, and some that were.
    sockets: Vec<TcpStream>,
    /// Whoever greets a node is told by him, and not by the node, that another has taken its place.
    is_liar: bool,
    lies: usize,
}

/// He; clones are the same.
#[derive(Clone, Default)]
pub struct Relay(Arc<Mutex<State>>);

impl Relay {
    /// Comes between the node at `address` and whoever is told what this gives.
    pub fn before(&self, address: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let (relay, address) = (self.clone(), address.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, node) = (client.unwrap(), TcpStream::connect(&address));
                // A node that is away hangs up on everybody.
                let Ok(node) = node else { continue };
                relay.carry(&client, &node, Towards::Node);
                relay.carry(&node, &client, Towards::Client);
            }
        });
        own
    }

    /// All that came over the wire.
    pub fn heard(&self) -> Vec<u8> {
        self.state(|state| state.heard.clone())
    }

    /// Plays this on the next record of so many bytes at least.
    pub fn play(&self, towards: Towards, prank: Prank, min: usize) {
        self.state(|state| state.prank = Some((towards, prank, min)));
    }

    /// Cuts all connections. To all who greet a node from now on he says that another has taken their place.
    pub fn lie(&self) {
        let sockets = self.state(|state| {
            state.is_liar = true;
            std::mem::take(&mut state.sockets)
        });
        sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    /// Lets the nodes speak again.
    pub fn be_honest(&self) {
        self.state(|state| state.is_liar = false);
    }

    /// How often he has said so.
    pub fn lies(&self) -> usize {
        self.state(|state| state.lies)
    }

    /// How many pranks were played.
    pub fn played(&self) -> usize {
        self.state(|state| state.played)
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn carry(&self, from: &TcpStream, to: &TcpStream, towards: Towards) {
        let (relay, mut from, mut to) = (self.clone(), from.try_clone().unwrap(), to.try_clone().unwrap());
        to.set_nodelay(true).unwrap();
        let kept = to.try_clone().unwrap();
        self.state(|state| state.sockets.push(kept));
        std::thread::spawn(move || {
            let end = relay.carry_all(&mut from, &mut to, towards);
            // Either side hears of it.
            if end.is_err() {
                let _gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            }
        });
    }

    fn carry_all(&self, from: &mut TcpStream, to: &mut TcpStream, towards: Towards) -> io::Result<()> {
        let is_encrypted = self.carry_handshake(from, to, towards)?;
        let mut kept: Option<Vec<u8>> = None;
        loop {
            let mut bytes = if is_encrypted { record(from)? } else { piece(from)? };
            let prank = self.state(|state| {
                state.heard.extend_from_slice(&bytes);
                let is_it =
                    |(way, _, min): &mut (Towards, Prank, usize)| *way == towards && bytes.len() >= *min;
                let prank = state.prank.take_if(is_it).map(|(_, prank, _)| prank);
                state.played += usize::from(prank.is_some());
                prank
            });
            let middle = bytes.len() / 2;
            match prank {
                Some(Prank::Flip) => bytes[middle] ^= 4,
                Some(Prank::Cut) => {
                    to.write_all(&bytes[..middle])?;
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Some(Prank::Repeat) => bytes.extend_from_within(..),
                Some(Prank::LeaveOut) => continue,
                Some(Prank::Exchange) => {
                    kept = Some(bytes);
                    continue;
                }
                None => bytes.extend(kept.take().unwrap_or_default()),
            }
            to.write_all(&bytes)?;
        }
    }

    fn pass(&self, from: &mut TcpStream, to: &mut TcpStream, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        from.read_exact(&mut bytes)?;
        self.state(|state| state.heard.extend_from_slice(&bytes));
        to.write_all(&bytes)?;
        Ok(bytes)
    }

    /// In place of what the node answers to a greeting; nothing follows.
    fn tell_lie(&self, from: &mut TcpStream, to: &mut TcpStream) -> io::Error {
        const SUPERSEDED: u8 = 5;
        let told = from.read_exact(&mut [0; 41]).and_then(|()| {
            let mut answer = [0; 41];
            answer[0] = SUPERSEDED;
            to.write_all(&answer)
        });
        self.state(|state| state.lies += usize::from(told.is_ok()));
        told.err().unwrap_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    /// The handshake as it is; whether the connection is encrypted after it, as the keys here begin.
    fn carry_handshake(
        &self,
        from: &mut TcpStream,
        to: &mut TcpStream,
        towards: Towards,
    ) -> io::Result<bool> {
        let mut pass = |len| self.pass(from, to, len);
        match towards {
            Towards::Client => {
                pass(38)?;
                if self.state(|state| state.is_liar) {
                    return Err(self.tell_lie(from, to));
                }
                pass(41)?;
            }
            Towards::Node => {
                let instance = usize::from(pass(7)?[6]);
                pass(instance)?;
                let rest = pass(58)?;
                pass(usize::from(u16::from_le_bytes([rest[56], rest[57]])) + 32)?;
            }
        }
        // A message of Noise has no length; a frame begins with one, whose upper bytes are 0.
        let start = pass(4)?;
        let is_encrypted = start[2..] != [0, 0];
        pass(if is_encrypted { 44 } else { 0 })?;
        Ok(is_encrypted)
    }
}

/// The next record.
fn record(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 2];
    from.read_exact(&mut bytes)?;
    bytes.resize(2 + usize::from(u16::from_le_bytes([bytes[0], bytes[1]])), 0);
    from.read_exact(&mut bytes[2..])?;
    Ok(bytes)
}

/// What comes next, in clear.
fn piece(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let len = from.read(&mut bytes)?;
    bytes.truncate(len);
    if len == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}
