//! What a fragment says to its mirror about the mirror itself.

use std::io;

use rustix::io::Errno;
use wire::data::{Reply, Request};

use crate::replica::Replica;

/// Does what is asked.
///
/// # Errors
/// The file system's; ENOTSUP.
pub(super) fn answer(replica: &Replica, request: &Request) -> io::Result<Reply> {
    match request {
        Request::FindMirror => return Ok(replica.describe()),
        Request::FindMeeting => return Ok(Reply::Meeting(replica.meeting())),
        Request::BeginMirror { verifier } => {
            replica.begin(*verifier)?;
            return Ok(replica.describe());
        }
        Request::NoteMirror { whole, lacking } => replica.note(*whole, lacking)?,
        Request::NoteMeeting { number } => replica.meet(*number)?,
        _ => return Err(Errno::NOTSUP.into()),
    }
    Ok(Reply::Done)
}
