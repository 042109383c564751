//! The checksums of one namespace's objects on one fragment: the log of seals, and who waits to be sealed.

mod absent;
mod changing;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use model::Ino;
use wire::node::ScrubStatus;

use super::guard::Guard;
use super::handed::Handed;
use super::known::Known;
use super::log::{Place, SealLog, opening::Loss};
use super::lost::{self, Lost};
use super::unverified::Unverified;
use crate::extents::BLOCK_BYTES;
use crate::measure::Measure;

/// See the module's words.
#[derive(Debug)]
pub struct Keeper {
    /// What is sealed.
    pub log: SealLog,
    /// What was lost with the fragment whose place this one took.
    pub lost: Lost,
    /// What lost its seals.
    pub unverified: Unverified,
    /// Objects that were changed since they were sealed.
    waiting: Mutex<HashMap<Ino, Arc<Guard>>>,
    /// What is known to be damaged.
    pub known: Known,
    /// Sealing is done one at a time.
    pub sealing: Mutex<()>,
    /// The last scrub, or the one that runs.
    pub scrub: Mutex<ScrubStatus>,
    /// Held while an object that is gone is replaced, forgotten, or put back.
    absent: Mutex<()>,
    /// How often something was repaired from another copy.
    repairs: AtomicU64,
    closed: AtomicBool,
}

impl Keeper {
    /// With the log at `seals`; `all` lists the objects that are there.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn open(seals: Place, all: impl Fn() -> io::Result<Vec<Ino>>) -> io::Result<Keeper> {
        let unverified = Unverified::open(&seals.path, &all)?;
        let lose = |loss: Loss| match all()? {
            // A log that never was is not missed.
            objects if objects.is_empty() && !loss.certain => Ok(()),
            objects => {
                let (path, count, what) = (seals.path.display(), objects.len(), &loss.why);
                tracing::error!(%path, what, objects = count, "checksums were lost: objects are unverified");
                unverified.begin(loss.why, objects)
            }
        };
        let lost = Lost::open(&lost::path_of(&seals.path))?;
        let log = SealLog::open(seals.clone(), lose)?;
        Ok(Keeper {
            known: Known::open(&seals.path, |ino| {
                log.get(ino).is_some() || lost.length(ino).is_some() || unverified.has(ino)
            }),
            lost,
            log,
            unverified,
            waiting: Mutex::default(),
            sealing: Mutex::default(),
            scrub: Mutex::default(),
            absent: Mutex::default(),
            repairs: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// The guard of an object that is opened now.
    ///
    /// # Errors
    /// The errno of `stat`.
    pub fn guard(&self, ino: Ino, file: &File) -> io::Result<Arc<Guard>> {
        if let Some(guard) = self.waiting().get(&ino) {
            return Ok(guard.clone());
        }
        let sealed = self.log.get(ino);
        let length = if sealed.is_some() { file.metadata()?.len() } else { 0 };
        Ok(Arc::new(Guard::new(ino, sealed, length)))
    }

    /// Notes that an object is handed out.
    ///
    /// # Errors
    /// See [`Guard::hand_out`].
    pub fn hand_out(&self, guard: &Arc<Guard>, found: &Measure) -> io::Result<()> {
        let found = Handed::of(found);
        if guard.lock().base.is_some() {
            found.pass_tick();
        }
        guard.hand_out(&self.log, found, || self.queue(guard))
    }

    /// Whether an object may be read without us.
    ///
    /// # Errors
    /// EIO where it is known to be damaged.
    pub fn check_faults(&self, ino: Ino) -> io::Result<()> {
        self.known.first(ino).map_or(Ok(()), |fault| Err(fault.error(ino)))
    }

    /// The object is about to be removed. That is durable before it happens: no power loss lets an object look lost
    /// that was removed, and no seal counts for another that is made under its number.
    ///
    /// # Errors
    /// The log's: the object must not be removed then.
    pub fn forget(&self, ino: Ino) -> io::Result<()> {
        let _nobody_puts_it_back = self.absent();
        match self.log.release(ino) {
            // What gives space back is not refused for the want of some.
            Err(error) if disk::is_full(&error) => {
                tracing::warn!(%ino, %error, "cannot note durably that an object is removed");
            }
            released => released?,
        }
        self.waiting().remove(&ino);
        self.known.forget(ino);
        self.log.forget(ino);
        self.lost.forget(ino);
        self.unverified.forget(ino);
        Ok(())
    }

    /// Takes note of an object that was not sealed in this process's life.
    pub fn queue(&self, guard: &Arc<Guard>) {
        self.waiting().insert(guard.ino(), guard.clone());
    }

    /// It is sealed, or gone.
    pub fn settled(&self, ino: Ino) {
        self.waiting().remove(&ino);
    }

    /// Who waits to be sealed.
    pub fn queued(&self) -> Vec<Arc<Guard>> {
        self.waiting().values().cloned().collect()
    }

    /// Whether it waits to be sealed.
    pub fn is_queued(&self, ino: Ino) -> bool {
        self.waiting().contains_key(&ino)
    }

    /// These blocks of an object were repaired.
    pub fn repaired(&self, ino: Ino, blocks: &Range<u64>) {
        self.count_repairs(1);
        self.known.repaired(ino, &(blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES));
    }

    /// So many places were repaired.
    pub fn count_repairs(&self, count: u64) {
        self.repairs.fetch_add(count, Ordering::Relaxed);
    }

    /// Only what is sealed, waits for that, or was lost can be damaged still.
    pub fn forget_healed(&self) {
        self.known.retain(|ino| {
            self.log.get(ino).is_some() || self.lost_length(ino).is_some() || self.is_queued(ino)
        });
    }

    /// How many were since it was opened.
    pub fn repairs(&self) -> u64 {
        self.repairs.load(Ordering::Relaxed)
    }

    /// While this is held, an object that is gone is not replaced, forgotten or put back by anybody else.
    pub fn absent(&self) -> MutexGuard<'_, ()> {
        self.absent.lock().expect(POISON)
    }

    /// Makes durable what was sealed, and what is verified again.
    ///
    /// # Errors
    /// The file system's.
    pub fn settle(&self) -> io::Result<()> {
        // What waits to be sealed may not be on the disk yet.
        self.unverified.save(|ino| !self.is_queued(ino))?;
        self.lost.save(|ino| !self.is_queued(ino))?;
        self.known.save()?;
        self.log.settle()
    }

    /// Lets threads that work for it end.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether long work for it goes on.
    ///
    /// # Errors
    /// It was closed.
    pub fn check_open(&self) -> io::Result<()> {
        match self.is_closed() {
            true => Err(io::Error::other("the buffer is being closed")),
            false => Ok(()),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Ino, Arc<Guard>>> {
        self.waiting.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds what is known of checksums";
