//! What a connection may ask for: that depends on who is at its other end.
//!
//! | who | names and attributes | objects |
//! |---|---|---|
//! | a storage node | all | all |
//! | a mount | all: its kernel has checked | what open files need |
//! | a process that works for a user | as the home shard permits (`shard::access`) | with a grant of the home |

use model::Ino;
use rustix::io::Errno;
use wire::data::Request;
use wire::data::credential::{Grant, Holder, Identity, User};
use wire::data::message::{Asker, JUST_MADE, Reply};

use super::Worker;
use crate::shard::caller::Asked;
use crate::shard::{Caller, Shard};

impl Worker {
    /// The request that is to be answered, out of what it came in.
    ///
    /// # Errors
    /// EACCES where the grant is missing or another's; EPERM where nobody like this asks for such a thing.
    pub(super) fn permitted(&self, request: Request) -> Result<Request, Errno> {
        let (grant, request) = match request {
            Request::Granted { grant, request } => {
                let request = Request::decode(&request).ok_or(Errno::INVAL)?;
                (Some(grant), request)
            }
            request => (None, request),
        };
        match (&self.identity, request.asker()) {
            (Identity::Member, _) => Ok(request),
            (_, Asker::Node) => Err(Errno::PERM),
            (Identity::Kernel, _) | (_, Asker::Client) => Ok(request),
            // By the same connection, which has just made it.
            (_, Asker::Opener { ino: JUST_MADE, .. }) if matches!(request, Request::OpenObject { .. }) => {
                Ok(request)
            }
            (Identity::User(user), Asker::Opener { ino, write })
                if self.may_touch(user, (ino, write), grant) =>
            {
                Ok(request)
            }
            (Identity::User(_), Asker::Opener { .. }) => Err(Errno::ACCESS),
        }
    }

    fn may_touch(&self, user: &User, (ino, write): (Ino, bool), grant: Option<Grant>) -> bool {
        let is_enough = |grant: &Grant| if write { grant.write } else { grant.read };
        let keys = self.fragment.keys();
        let is_good = |grant: Grant| keys.find(|key| grant.is_for(key, self.holder(user), ino)).is_some();
        ino != JUST_MADE && grant.filter(is_enough).is_some_and(is_good)
    }

    /// Asks the shard, in the name of whoever is at the other end.
    pub(super) fn ask(&self, shard: &Shard, id: u64, request: Request) -> Reply {
        let Identity::User(user) = &self.identity else {
            return shard.handle(Caller::new(self.session, id), request);
        };
        let opens = match request {
            Request::Open { write, .. } => Some(write),
            Request::Create { .. } => Some(true),
            _ => None,
        };
        let asked = request.clone();
        let caller = Caller::of_user(self.session, id, Asked { user, request: &asked });
        let reply = shard.handle(caller, request);
        let Some(write) = opens else { return reply };
        reply.with_grant(|inode| {
            let ino = inode.attr.ino;
            let read = !write || shard.may_read(caller, ino);
            Grant::give(&self.fragment.keys().shown(), self.holder(user), ino, read, write)
        })
    }

    fn holder(&self, user: &User) -> Holder {
        Holder { uid: user.uid, session: self.session }
    }
}
