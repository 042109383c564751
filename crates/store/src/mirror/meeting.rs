//! A fragment has found its mirror: both note how often that was, unless one of them was replaced by an older copy of
//! itself.

use std::io;

use wire::data::{Reply, Request};

use super::link::Link;
use super::meetings::{self, Meetings, Order};
use super::restore_error::RestoreError;
use super::{Mirror, POISON};

impl Mirror {
    /// Both note that they have met once more. Returns whether the mirror is older than it was when they met last,
    /// which the next life does not see: `if_older` notes what follows before.
    ///
    /// # Errors
    /// The connection's; it cannot be noted; this fragment is older than its mirror, and is not used from now on.
    pub(crate) fn meet(
        &self,
        link: &mut Link,
        if_older: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<bool> {
        let Reply::Meeting(heard) = link.ask(&Request::FindMeeting, &[])? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut own = self.meetings.lock().expect(POISON);
        let order = meetings::compare(*own, heard);
        if matches!(order, Order::Older | Order::Unknown) {
            self.lock().older = true;
            self.changed.notify_all();
            return Err(io::Error::other(RestoreError::Older { node: self.place.node() }));
        }
        if order == Order::MirrorOlder {
            if_older()?;
        }
        let path = self.notes.path_of(meetings::NAME);
        let (number, begun) = own.unwrap_or_default().begin();
        begun.note(&path)?;
        *own = Some(begun);
        link.ask(&Request::NoteMeeting { number }, &[])?;
        let confirmed = Meetings::up_to(number);
        confirmed.note(&path)?;
        *own = Some(confirmed);
        Ok(order == Order::MirrorOlder)
    }
}
