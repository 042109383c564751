//! Has the fragments sync what sessions left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use model::{FragmentIndex, Ino, SessionId};
use rustix::io::Errno;
use wire::data::{Reply, Request};

use super::super::Shard;
use crate::errno::errno_of;
use crate::objects::Objects;
use crate::peers::Peers;

/// How long to ask for the verifier of a fragment whose connection has just broken.
const VERIFIER_PATIENCE: Duration = Duration::from_millis(200);

/// So many files are synced at once: a fragment must answer in time, whatever its disk has to write.
const BATCH: usize = 16;

/// By whom this node syncs its own objects, and looks.
pub(super) const OWN: SessionId = SessionId([0xfc; 16]);

/// The fragments, for as long as the shard is open.
pub(super) struct Parts {
    objects: Arc<Objects>,
    pub(super) peers: Arc<Peers>,
    shard: Weak<Shard>,
}

impl Parts {
    pub(super) fn of(shard: &Arc<Shard>) -> Parts {
        Parts { objects: shard.objects.clone(), peers: shard.peers.clone(), shard: Arc::downgrade(shard) }
    }

    pub(super) fn has(&self, (fragment, then): (FragmentIndex, u64)) -> bool {
        verifier(&self.objects, &self.peers, fragment) == Some(then)
    }

    /// Syncs files on a fragment. Those that cannot be.
    ///
    /// # Errors
    /// The fragment does not answer, or the shard is closed.
    pub(super) fn sync(&self, fragment: FragmentIndex, inos: &[Ino]) -> Result<Vec<Ino>, Errno> {
        let mut failed = Vec::new();
        for batch in inos.chunks(BATCH) {
            if self.sync_batch(fragment, batch)? {
                continue;
            }
            for ino in batch {
                if !self.sync_batch(fragment, &[*ino])? {
                    failed.push(*ino);
                }
            }
        }
        Ok(failed)
    }

    /// Whether all of them are synced. What the home knows already, and a program was told, is nothing new.
    fn sync_batch(&self, fragment: FragmentIndex, inos: &[Ino]) -> Result<bool, Errno> {
        if self.shard.upgrade().is_none_or(|shard| shard.destroyer.is_closed()) {
            return Err(Errno::IO);
        }
        let failed = if self.peers.is_self(fragment) {
            self.objects.sync_many(OWN, inos).err().map(|error| errno_of(&error).raw_os_error())
        } else {
            match self.peers.reply(fragment, &Request::SyncMany { inos: inos.to_vec() }, Duration::ZERO)? {
                Reply::Failed(errno) => Some(errno),
                _ => None,
            }
        };
        Ok(failed.is_none_or(|errno| errno == Errno::REMOTEIO.raw_os_error() && inos.len() == 1))
    }

    /// Syncs all files that have something on a fragment.
    ///
    /// # Errors
    /// As [`Parts::sync`].
    pub(super) fn sync_all(&self, fragment: FragmentIndex) -> Result<Vec<Ino>, Errno> {
        let (mut after, mut failed) = (Ino(0), Vec::new());
        loop {
            let page = match self.peers.is_self(fragment) {
                true => self.objects.page(after).map_err(|error| errno_of(&error))?,
                false => self.peers.objects(fragment, after)?,
            };
            let inos: Vec<Ino> = page.into_iter().map(|(ino, _)| ino).collect();
            let Some(last) = inos.last() else { return Ok(failed) };
            after = *last;
            failed.extend(self.sync(fragment, &inos)?);
        }
    }
}

/// The commit verifier that a fragment has; `None` while it does not answer.
pub(super) fn verifier(objects: &Objects, peers: &Peers, fragment: FragmentIndex) -> Option<u64> {
    if peers.is_self(fragment) {
        return Some(objects.verifier());
    }
    match peers.reply(fragment, &Request::Verifier, VERIFIER_PATIENCE) {
        Ok(Reply::Verifier(verifier)) => Some(verifier),
        _ => None,
    }
}
