//! What a connection may ask for: that depends on who is at its other end.
//!
//! | who | names and attributes | objects |
//! |---|---|---|
//! | a storage node | all | all |
//! | a mount | all: its kernel has checked | what open files need |
//! | a mount that squashes root | the same, but nothing is made root's, or given to it | the same |
//! | a process that works for a user | as the home shard permits (`shard::access`) | with a grant of the home |

use model::Ino;
use rustix::io::Errno;
use wire::data::credential::{Grant, Holder, Identity, User};
use wire::data::message::{Asker, JUST_MADE, Reply};
use wire::data::{Creator, Request, SetAttr};

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
            (Identity::Kernel | Identity::SquashingKernel, _) | (_, Asker::Client) => Ok(request),
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
        let user = match &self.identity {
            Identity::User(user) => user,
            // A mount goes on squashing root where its credential is changed after the option was.
            identity => match (identity, request) {
                (_, Request::Squashed { request }) => return squashed(shard, &request),
                (Identity::SquashingKernel, request) if makes_roots(&request) => return refused(Errno::PERM),
                (_, request) => return shard.handle(Caller::new(self.session, id), request),
            },
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

/// Whether nobody may do what a mount asks for in the name of root.
fn squashed(shard: &Shard, request: &[u8]) -> Reply {
    let judged = Request::decode(request).ok_or(Errno::INVAL).and_then(|request| shard.may_nobody(&request));
    judged.map_or_else(refused, |()| Reply::Done)
}

fn refused(errno: Errno) -> Reply {
    Reply::Failed(errno.raw_os_error())
}

/// Whether something is root's afterwards: what a mount that squashes root has no reason to ask for.
fn makes_roots(request: &Request) -> bool {
    matches!(
        request,
        Request::Create { creator: Creator { uid: 0, .. }, .. }
            | Request::Make { creator: Creator { uid: 0, .. }, .. }
            | Request::SetAttr { set: SetAttr { uid: Some(0), .. }, .. }
    )
}
