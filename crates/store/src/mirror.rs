//! The mirror of a fragment's objects, which the node of the next fragment keeps: each change of an object is made on
//! both nodes before it is answered, and each sync is one of both disks.
//!
//! ```text
//! unknown ---> both: each change goes to the mirror as well; what the mirror lacks is copied meanwhile (`filling`)
//!   ^  |        |
//!   |  |        +-- the connection breaks: unknown. Changes wait, and are sent again when the mirror is back
//!   +--+-- a change waited in vain, and control knows if it is to: alone. It and those that follow are made here only,
//!          which is noted durably before, until the mirror has all that was changed so
//! ```
//!
//! **Invariant:** overlapping changes of an object reach both copies in one order, which is decided here. A change that
//! is answered while no note says that this node is alone is on both nodes. So is one that is answered while control,
//! which may have this node replaced, does not know that there is doubt ([`Doubt`]).

mod asked;
mod connections;
mod filled;
mod lacking;
pub mod link;
mod meeting;
pub mod meetings;
mod noted;
pub mod primary;
mod progress;
pub mod ranges;
pub mod restore_error;
pub(crate) mod todo;

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use model::{FragmentIndex, Ino, NodeName};
use rustix::io::Errno;
use wire::data::{Reply, Request};
use wire::node::MirrorStatus;

use crate::alone;
use crate::doubt::{Doubt, SILENT_MAX, WAIT_MAX};
use crate::link::Place;
use crate::log_folder::Folder;
use crate::verifier::Verifier;
use link::Link;
use meetings::Meetings;
pub(crate) use noted::LACKING_MAX;
pub(crate) use progress::{Had, Note};
use progress::{Progress, Way};
use ranges::{Held, Ranges};

/// The mirror of one namespace's objects on one fragment.
pub struct Mirror {
    place: Place,
    /// The namespace's home, which knows what files there are.
    home: Option<Place>,
    /// Whose objects they are.
    fragment: FragmentIndex,
    /// Where it is noted that this node is alone.
    notes: Arc<dyn Folder>,
    /// How often both have met: before that of this life is begun.
    meetings: Mutex<Option<Meetings>>,
    /// The fragment's.
    verifier: Arc<Verifier>,
    ranges: Ranges,
    /// Whatever was in doubt when this fragment was opened was judged.
    all_judged: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// A change that is under way to the mirror.
struct Sent<'a> {
    link: Link,
    request: &'a Request,
    payload: &'a [u8],
    begun: Instant,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("node", &self.place.node()).finish_non_exhaustive()
    }
}

impl Mirror {
    /// At `place`, of a namespace with its metadata at `home`; whether this node is alone is noted in `notes`. Which
    /// objects differ is not known at first.
    ///
    /// # Errors
    /// It is not known whether this node was alone.
    pub fn new(
        (place, home, fragment): (Place, Option<Place>, FragmentIndex),
        notes: Arc<dyn Folder>,
        verifier: Arc<Verifier>,
    ) -> io::Result<Arc<Mirror>> {
        let meetings = Mutex::new(meetings::read(&notes.path_of(meetings::NAME))?);
        let progress = Progress::new(alone::is_alone(&*notes)?, Doubt::new(place.is_witnessed()));
        let (ranges, progress) = (Ranges::default(), Mutex::new(progress));
        Ok(Arc::new(Mirror {
            place,
            home,
            fragment,
            notes,
            meetings,
            verifier,
            ranges,
            all_judged: AtomicBool::new(false),
            progress,
            changed: Condvar::new(),
        }))
    }

    /// Lets nobody else change any of the range, until what this gives is dropped.
    pub fn hold(&self, ino: Ino, range: Range<u64>) -> Held<'_> {
        self.ranges.hold(ino, range)
    }

    /// Makes a change of an object, whose range the caller holds: `local` here, `request` there.
    ///
    /// # Errors
    /// Those of `local`; the fragment is closed. What goes wrong there is noted, and mended when it can be.
    pub fn change<T>(
        &self,
        ino: Ino,
        (request, payload): (&Request, &[u8]),
        local: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let sent = self.send(&[ino], request, payload, Instant::now())?;
        let done = local();
        if done.is_err() {
            // Nobody was told that it was done, but there it may have been.
            self.differs(ino);
        }
        let settled = self.settle(&[ino], sent);
        if settled.is_err() {
            // Nor does anybody know whether it was done there.
            self.differs(ino);
        }
        done.and_then(|done| settled.map(|()| done))
    }

    /// Syncs objects: `local` here, `request` there, at the same time.
    ///
    /// # Errors
    /// Those of `local`; the fragment is closed.
    pub fn sync<T>(
        &self,
        inos: &[Ino],
        request: &Request,
        local: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let sent = self.send(inos, request, &[], Instant::now())?;
        let done = local();
        let settled = self.settle(inos, sent);
        done.and_then(|done| settled.map(|()| done))
    }

    /// Sends a request to the mirror. `None` where this node is alone: what `inos` are about is noted then.
    ///
    /// # Errors
    /// The fragment is closed: what would be done here now, its next life may have copied before.
    fn send<'a>(
        &self,
        inos: &[Ino],
        request: &'a Request,
        payload: &'a [u8],
        begun: Instant,
    ) -> io::Result<Option<Sent<'a>>> {
        loop {
            let Some((epoch, idle)) = self.admit(inos, begun)? else { return Ok(None) };
            let link = idle.map_or_else(|| self.connect(epoch), Ok);
            let sent = link.and_then(|mut link| link.send(request, payload).map(|()| link));
            match sent {
                Ok(link) => return Ok(Some(Sent { link, request, payload, begun })),
                Err(error) => self.broke(epoch, &error),
            }
        }
    }

    /// Another connection to the mirror. Whoever fences off the former ones must find this among them.
    fn connect(&self, epoch: u64) -> io::Result<Link> {
        let link = Link::reach(&self.place, epoch)?;
        let progress = self.lock();
        match progress.epoch == epoch {
            true => Ok(link.watched(progress.now.clone(), epoch)),
            false => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Waits until it is known where changes are made, and if it is here only, also whether control knows. `None`: here
    /// only.
    fn admit(&self, inos: &[Ino], begun: Instant) -> io::Result<Option<(u64, Option<Link>)>> {
        let mut progress = self.lock();
        loop {
            let way = progress.way;
            match way {
                _ if progress.closed || progress.older || self.place.is_replaced() => {
                    return Err(Errno::IO.into());
                }
                Way::Both if begun.elapsed() < WAIT_MAX || !progress.may_go_alone() => {
                    let epoch = progress.epoch;
                    return Ok(Some((epoch, progress.take_idle())));
                }
                Way::Unknown => {
                    let since = *progress.waiting_since.get_or_insert_with(Instant::now);
                    let left = SILENT_MAX.saturating_sub(since.elapsed());
                    if !left.is_zero() && begun.elapsed() < WAIT_MAX {
                        progress = self.changed.wait_timeout(progress, left).expect(POISON).0;
                        continue;
                    }
                }
                Way::Alone | Way::Both => {}
            }
            // First: whoever cannot note it never tells control that the mirror may lack something.
            self.note_alone(&mut progress)?;
            if progress.way == Way::Unknown && !progress.doubt.permits() {
                progress = self.changed.wait(progress).expect(POISON);
                continue;
            }
            self.go_alone(&mut progress);
            progress.lack(inos);
            return Ok(None);
        }
    }

    /// Waits for the answer to what was sent, and sends it again when the connection breaks: it does no harm twice, as
    /// nobody else changes the range meanwhile. A node that is slow and alive may take as long as this one took, and
    /// [`WAIT_MAX`] on top of that.
    ///
    /// # Errors
    /// The fragment is closed: whether the mirror has it is found out by its next life.
    fn settle(&self, inos: &[Ino], mut sent: Option<Sent<'_>>) -> io::Result<()> {
        while let Some(Sent { mut link, request, payload, begun }) = sent {
            match link.receive_within(begun.elapsed() + WAIT_MAX) {
                Ok(Reply::Failed(errno)) => {
                    self.give_back(link);
                    if matches!(request, Request::SyncMany { .. }) {
                        self.lock().unsynced.extend(inos);
                    }
                    return self.lacks(inos, Errno::from_raw_os_error(errno));
                }
                Ok(_) => {
                    self.give_back(link);
                    return Ok(());
                }
                Err(error) => self.broke(link.epoch(), &error),
            }
            sent = self.send(inos, request, payload, begun)?;
        }
        Ok(())
    }

    /// Control knows of these doubts.
    pub fn hear(&self, doubts: &[u64]) {
        if self.lock().doubt.hear(doubts) {
            self.changed.notify_all();
        }
    }

    /// How it stands, for the fragment of the node `node`.
    pub fn status(&self, namespace: u32, node: &NodeName) -> MirrorStatus {
        let progress = self.lock();
        let whole = progress.is_whole();
        MirrorStatus {
            namespace,
            node: node.to_owned(),
            mirror: self.place.node(),
            whole,
            named: progress.named,
            behind: progress.todo.count(),
            error: progress.trouble.clone().filter(|_| !whole),
            doubt: progress.doubt.untold(),
            repaired: 0,
            making_ms: progress.making_ms(),
        }
    }

    /// Nothing goes to the mirror any more, and nobody waits.
    pub fn close(&self) {
        let mut progress = self.lock();
        progress.closed = true;
        progress.turn();
        drop(progress);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the state of a mirror";

#[cfg(test)]
mod tests;
