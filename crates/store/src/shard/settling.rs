//! Sizes that only the fragments know although nobody writes any more: after a power loss, or where a writer was lost
//! or could not measure. The home asks the fragments and has the sizes again, so that a node that is lost later
//! concerns no file that had nothing there.
//!
//! ```text
//! a size is doubted, or a file closed that has none -> a second or two later, unless a client did so meanwhile:
//!   all its fragments answer, and it has no hole    -> the log has its size, and is synced
//!   it has holes, or is damaged                     -> it stays one that is measured, until it is doubted again
//!   a fragment is away                              -> later
//! ```
//!
//! **Invariant:** a size that was measured is taken only in the epoch that it was measured in, and by nobody who may
//! not know of a writer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::stripe::Layout;
use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::{Reply, Request, Time};

use super::Shard;
use super::state::State;
use super::tree::Inode;
use crate::objects::Objects;
use crate::peers::Peers;

/// How often the home looks for sizes to measure. What a client measures is done sooner.
const PERIOD: Duration = Duration::from_secs(1);

/// How long clients have to say again what they have open that a power loss made this shard forget: they show each
/// second that they live. Or the grace period, if that is shorter.
const PATIENCE: Duration = Duration::from_secs(5);

/// The home looks no more often, however short [`PATIENCE`] is.
const PERIOD_MIN: Duration = Duration::from_millis(50);

/// How long to ask a fragment, which may be starting, too.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// After so many sizes the log is synced.
const BATCH: usize = 4096;

impl State {
    /// Files to be measured now, and their epochs.
    fn take_unsettled(&mut self) -> Vec<(Ino, u64)> {
        if self.sessions.is_awaiting() {
            return Vec::new();
        }
        let due = self.unsettled.take_due();
        let State { tree, sessions, unsettled, .. } = self;
        let is_due = |ino: Ino, inode: &Inode| {
            let is_left = inode.live && inode.nlink > 0 && !sessions.is_written(ino);
            is_left && !unsettled.is_without(ino, inode.epoch)
        };
        let epoch = |(ino, inode): (Ino, &Inode)| is_due(ino, inode).then_some((ino, inode.epoch));
        match due {
            None => tree.files().filter_map(epoch).collect(),
            Some(due) => due.into_iter().filter_map(|ino| epoch((ino, tree.get(ino)?))).collect(),
        }
    }
}

/// What is needed to measure files.
struct Measuring {
    layout: Layout,
    objects: Arc<Objects>,
    peers: Arc<Peers>,
}

/// What the fragments say of a file.
enum Measured {
    Size(u64, Time),
    /// It has holes, or is damaged.
    None,
}

impl Measuring {
    /// Asks all fragments of a file.
    ///
    /// # Errors
    /// One of them does not answer.
    fn measure(&self, ino: Ino) -> Result<Measured, Errno> {
        let (mut size, mut mtime) = (0, Time::default());
        for fragment in self.layout.fragments_of(ino) {
            let Reply::Object { size: length, mtime: time, .. } =
                self.ask(fragment, &Request::Measure { ino })?
            else {
                return Ok(Measured::None);
            };
            size = size.max(self.layout.file_size(ino, fragment, length));
            mtime = mtime.max(time);
        }
        for fragment in self.layout.fragments_of(ino) {
            let length = self.layout.object_size(ino, fragment, size).unwrap_or(0);
            if !self.is_full(ino, fragment, length)? {
                return Ok(Measured::None);
            }
        }
        Ok(Measured::Size(size, mtime))
    }

    /// Whether an object has data up to this length.
    fn is_full(&self, ino: Ino, fragment: FragmentIndex, length: u64) -> Result<bool, Errno> {
        let mut at = 0;
        while at < length {
            match self.ask(fragment, &Request::NextData { ino, offset: at })? {
                Reply::Range(Some((start, end))) if start <= at && at < end => at = end,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// A fragment's answer, also that something failed.
    fn ask(&self, fragment: FragmentIndex, request: &Request) -> Result<Reply, Errno> {
        if !self.peers.is_self(fragment) {
            return self.peers.reply(fragment, request, Duration::ZERO);
        }
        let told = match request {
            Request::Measure { ino } => self.objects.tell_measure(*ino),
            Request::NextData { ino, offset } => self.objects.tell_next_data(*ino, *offset),
            _ => Err(Errno::NOTSUP.into()),
        };
        Ok(told.unwrap_or_else(|error| Reply::Failed(super::errno_of(&error).raw_os_error())))
    }
}

impl Shard {
    /// Whether a file reaches to what the fragment `index` has of it, by what all others have; also where one of these
    /// cannot say what.
    pub fn is_meant_by_others(&self, index: FragmentIndex, ino: Ino) -> bool {
        let mut size = 0;
        for other in self.layout.fragments_of(ino).filter(|other| *other != index) {
            match self.peers.reply(other, &Request::Measure { ino }, ASKED_WITHIN) {
                Ok(Reply::Object { size: length, .. }) => {
                    size = size.max(self.layout.file_size(ino, other, length));
                }
                _ => return true,
            }
        }
        self.layout.object_size(ino, index, size).is_some_and(|length| length > 0)
    }
}

/// Sees to the sizes of files, if other fragments have parts of them, until the shard is closed.
pub fn start(shard: &Arc<Shard>) {
    if shard.measures_itself() {
        return;
    }
    let patience = PATIENCE.min(shard.peers.grace());
    let shard = Arc::downgrade(shard);
    std::thread::Builder::new()
        .name("settling".into())
        .spawn(move || run(&shard, patience))
        .expect("the system has a thread for each namespace");
}

fn run(shard: &Weak<Shard>, patience: Duration) {
    let started = Instant::now();
    loop {
        std::thread::sleep(patience.clamp(PERIOD_MIN, PERIOD));
        let Some(strong) = shard.upgrade().filter(|shard| !shard.destroyer.is_closed()) else { return };
        if started.elapsed() < patience {
            continue;
        }
        let due = strong.lock().take_unsettled();
        let (layout, objects, peers) = (strong.layout, strong.objects.clone(), strong.peers.clone());
        // Not the shard: a node that hangs must not keep its files open.
        drop(strong);
        let measuring = Measuring { layout, objects, peers };
        for batch in due.chunks(BATCH) {
            if settle(shard, &measuring, batch).is_none() {
                return;
            }
        }
    }
}

/// Asks for these sizes, as long as the shard is there.
fn settle(shard: &Weak<Shard>, measuring: &Measuring, batch: &[(Ino, u64)]) -> Option<()> {
    let mut any = false;
    for (done, (ino, epoch)) in batch.iter().enumerate() {
        let measured = measuring.measure(*ino);
        let shard = shard.upgrade().filter(|shard| !shard.destroyer.is_closed())?;
        match measured {
            // What the log does not take is measured by who asks, as before.
            Ok(Measured::Size(size, mtime)) => any |= shard.settle(*ino, size, mtime, *epoch).is_ok(),
            Ok(Measured::None) => shard.lock().unsettled.has_none(*ino, *epoch),
            Err(_) => {
                shard.lock().unsettled.put_back(batch[done..].iter().map(|(ino, _)| *ino));
                break;
            }
        }
    }
    let shard = shard.upgrade()?;
    if any && let Err(error) = shard.sync_log() {
        tracing::warn!(%error, "the sizes of files that were measured may be lost with this node's power");
    }
    Some(())
}
