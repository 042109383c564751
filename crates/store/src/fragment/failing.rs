//! What a disk could not write back. Who syncs the object is told, as long as this process lives; the home of the
//! namespace is told by itself: so no stage takes the file for good, and other clients hear of it, whoever heard the
//! kernel's one word of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::{LOSSES_MAX, LossRequest};
use wire::data::{Reply, Request};
use wire::node::NamespaceSpec;

use super::Fragment;
use crate::objects::Objects;
use crate::peers::Peers;
use crate::shard::Shard;

/// How often to tell a home that did not hear it.
const PERIOD: Duration = Duration::from_secs(1);

/// Who is told.
enum Home {
    Here(Weak<Shard>),
    There(FragmentIndex, Box<Peers>),
}

impl Fragment {
    /// Has the home of the namespace hear of it, from a thread that ends with the objects.
    pub(super) fn tell_of_failures(
        &self,
        namespace: &NamespaceSpec,
        objects: &Arc<Objects>,
        shard: Option<&Arc<Shard>>,
    ) {
        let home = match shard {
            Some(shard) => Home::Here(Arc::downgrade(shard)),
            None => {
                let peers = Peers::new(&self.spec, namespace.id, self.keys.clone(), &self.terms);
                Home::There(namespace.home, Box::new(peers))
            }
        };
        let (failures, objects) = (objects.failures(), Arc::downgrade(objects));
        std::thread::Builder::new()
            .name("failing".into())
            .spawn(move || {
                while let Ok(first) = failures.recv() {
                    let mut inos: Vec<Ino> = std::iter::once(first).chain(failures.try_iter()).collect();
                    inos.sort_unstable();
                    inos.dedup();
                    inos.chunks(LOSSES_MAX).for_each(|inos| home.hear(inos, &objects));
                }
            })
            .expect("the system has a thread for each namespace");
    }
}

impl Home {
    /// Until it has heard it, or the objects are closed.
    fn hear(&self, inos: &[Ino], objects: &Weak<Objects>) {
        let now = || {
            let objects = objects.upgrade()?;
            Some((objects.verifier(), objects.counted_failures(inos)))
        };
        while let Some((verifier, counted)) = now() {
            let told = match self {
                Home::Here(shard) => shard.upgrade().map_or(Ok(()), |shard| shard.lose_own(inos)),
                Home::There(home, peers) => tell(*home, peers, verifier, inos),
            };
            let Err(errno) = told else {
                return objects.upgrade().into_iter().for_each(|objects| objects.known_at_home(&counted));
            };
            tracing::warn!(files = inos.len(), %errno, "cannot tell the home yet what was lost; this node tries \
                                                        again");
            std::thread::sleep(PERIOD);
        }
    }
}

fn tell(home: FragmentIndex, peers: &Peers, verifier: u64, inos: &[Ino]) -> Result<(), Errno> {
    let lost = LossRequest::Lost { fragment: peers.own(), verifier, inos: inos.to_vec(), any: false };
    match peers.reply(home, &Request::Losses(lost), Duration::ZERO)? {
        // Homes of older releases keep no account of losses.
        Reply::Failed(errno) if errno != Errno::NOTSUP.raw_os_error() => Err(Errno::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}
