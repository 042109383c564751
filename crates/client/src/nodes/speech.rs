//! What is said on one connection, and the answers to it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use wire::data::connection::is_shortage;
use wire::data::hello::HelloError;
use wire::data::message::{FEATURES, JUST_MADE, LOSSES};
use wire::data::{Connection, Reply, Request};

/// Says what a life begins with. The home shard must have heard it: it would give what is held to others.
pub(super) fn say(connection: &mut Connection, request: &Request) -> Result<Reply, HelloError> {
    connection.send(0, request, &[])?;
    match receive(connection, 0, &mut [])?.0 {
        Reply::Failed(errno) => Err(std::io::Error::from_raw_os_error(errno).into()),
        reply => Ok(reply),
    }
}

pub(super) fn ask_verifier(connection: &mut Connection) -> Result<u64, HelloError> {
    connection.send(0, &Request::Verifier, &[])?;
    match receive(connection, 0, &mut [])?.0 {
        Reply::Verifier(verifier) => Ok(verifier),
        _ => Err(HelloError::NotForebay),
    }
}

/// Whether the home shard understands [`Request::Losses`].
pub(super) fn takes_part_in_losses(connection: &mut Connection) -> Result<bool, HelloError> {
    connection.send(0, &Request::ReadLink { ino: FEATURES }, &[])?;
    let features = match receive(connection, 0, &mut [])?.0 {
        Reply::Bytes(features) => features,
        _ => Vec::new(),
    };
    Ok(features.split(|byte| *byte == b' ').any(|feature| feature == LOSSES.as_bytes()))
}

pub(super) fn make_and_open(
    connection: &mut Connection,
    (id, request): (u64, &Request),
    second_id: u64,
) -> Result<(Reply, Result<OwnedFd, Errno>), HelloError> {
    connection.send(id, request, &[])?;
    connection.send(second_id, &Request::OpenObject { ino: JUST_MADE }, &[])?;
    let (made, _) = receive(connection, id, &mut [])?;
    Ok((made, receive_object(connection, second_id)?))
}

pub(super) fn ask_for_object(
    connection: &mut Connection,
    id: u64,
    request: &Request,
) -> Result<Result<OwnedFd, Errno>, HelloError> {
    connection.send(id, request, &[])?;
    receive_object(connection, id)
}

/// A refusal is an answer, too.
fn receive_object(connection: &mut Connection, id: u64) -> Result<Result<OwnedFd, Errno>, HelloError> {
    Ok(match receive(connection, id, &mut [])?.0 {
        Reply::Descriptor => match connection.receive_descriptor() {
            Err(error) if is_shortage(&error) => Err(Errno::MFILE),
            received => Ok(received?),
        },
        Reply::Failed(errno) => Err(Errno::from_raw_os_error(errno)),
        _ => Err(Errno::PROTO),
    })
}

/// Takes one answer; its payload, if any, lands at the start of `into`.
pub(super) fn receive(
    connection: &mut Connection,
    id: u64,
    into: &mut [u8],
) -> Result<(Reply, usize), HelloError> {
    let frame = connection.receive::<Reply>()?;
    if frame.id != id || frame.payload_len > into.len() {
        return Err(HelloError::NotForebay);
    }
    connection.payload(&mut into[..frame.payload_len])?;
    Ok((frame.message, frame.payload_len))
}
