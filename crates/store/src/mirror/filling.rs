//! The thread that finds the way to the mirror, and copies to it what it lacks, beside changes of the same objects.
//!
//! **Invariant:** an object that may differ is noted as such until it was copied as a whole after that.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use wire::data::{Reply, Request};

use super::link::Link;
use super::progress::{Had, Note};
use super::ranges::Held;
use super::todo::{Queue, Todo};
use super::{Mirror, POISON, Way, alone};
use crate::objects::Objects;

/// How soon the mirror is looked for again: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often a mirror that has everything is asked whether it is there.
const ASK_EVERY: Duration = Duration::from_secs(1);

const LOST_UNSYNCED: &str = "the mirror's node has lost what was not synced";

/// How soon somebody else's change is looked at again that is in the way.
const IN_THE_WAY: Duration = Duration::from_millis(1);

/// Starts it.
pub fn start(objects: &Arc<Objects>, mirror: &Arc<Mirror>) -> io::Result<()> {
    let (objects, mirror) = (Arc::downgrade(objects), mirror.clone());
    std::thread::Builder::new().name("mirror".into()).spawn(move || run(&objects, &mirror)).map(drop)
}

fn run(objects: &Weak<Objects>, mirror: &Mirror) {
    let mut pause = PAUSE_MIN;
    while !mirror.lock().closed && objects.strong_count() > 0 {
        if let Err(error) = Filling::begin(objects, mirror).and_then(|mut filling| {
            pause = PAUSE_MIN;
            filling.run()
        }) {
            mirror.lost(&error);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What one connection does.
pub(super) struct Filling<'a> {
    objects: &'a Weak<Objects>,
    pub(super) mirror: &'a Mirror,
    pub(super) link: Link,
    pub(super) epoch: u64,
    /// What the mirror's node has noted that it lacks, if that is known.
    pub(super) told: Option<Note>,
}

impl<'a> Filling<'a> {
    /// Finds the way: from here on changes are made on both nodes.
    fn begin(objects: &'a Weak<Objects>, mirror: &'a Mirror) -> io::Result<Filling<'a>> {
        let epoch = mirror.lock().epoch;
        let mut link = Link::reach(&mirror.place, epoch)?;
        // What was sent by connections that broke must not be done later.
        link.ask(&Request::Fence, &[])?;
        let Reply::Mirror { whole, lacking, verifier, .. } = link.ask(&Request::FindMirror, &[])? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let is_older = mirror.meet(&mut link)?;
        let noted: Note = whole.then(|| lacking.into_iter().collect());
        mirror.note_had(noted.clone().filter(|_| !is_older), verifier);
        let begin = Request::BeginMirror { verifier: mirror.verifier.number() };
        let Reply::Mirror { life, .. } = link.ask(&begin, &[])? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        mirror.heard(life, is_older)?;
        let here = objects.upgrade().ok_or(io::ErrorKind::ConnectionAborted)?;
        let mut filling = Filling { objects, mirror, link, epoch, told: Some(noted) };
        filling.tell(&here)?;
        filling.epoch = mirror.found();
        Ok(filling)
    }

    /// Copies what differs, and then looks whether the mirror is there, until it is not.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let Some(objects) = self.objects.upgrade() else { return Ok(()) };
            self.tell(&objects)?;
            let todo = std::mem::replace(&mut self.mirror.lock().todo, Todo::none());
            if !todo.is_none() {
                self.fill(&objects, todo)?;
            } else if !self.mirror.lock().whole {
                self.complete(&objects)?;
            }
            drop(objects);
            if !self.rest()? {
                return Ok(());
            }
        }
    }

    /// Everything was copied: the mirror is told so when it has it on its disk.
    fn complete(&mut self, objects: &Objects) -> io::Result<()> {
        if self.mirror.copied_all() {
            self.tell(objects)?;
            self.mirror.completed();
        }
        Ok(())
    }

    /// Waits until there is something to be done. Returns whether there may be.
    fn rest(&mut self) -> io::Result<bool> {
        let is_idle = |progress: &mut super::Progress| {
            let due = !progress.todo.is_none() || !progress.whole;
            !progress.closed && progress.epoch == self.epoch && !due
        };
        let progress = self.mirror.lock();
        let (progress, waited) =
            self.mirror.changed.wait_timeout_while(progress, ASK_EVERY, is_idle).expect(POISON);
        let goes_on = !progress.closed && progress.epoch == self.epoch;
        drop(progress);
        if goes_on && waited.timed_out() {
            self.link.ask(&Request::Verifier, &[])?;
        }
        Ok(goes_on)
    }

    /// Copies these objects. Those that cannot be copied are tried again later.
    fn fill(&mut self, objects: &Objects, todo: Todo) -> io::Result<()> {
        let all = match &todo {
            Todo::These(these) => Ok(these.clone()),
            Todo::All => self.all(objects),
        };
        let judged = all.and_then(|all| {
            let undecided = self.judge_all(objects, all.clone())?;
            if todo == Todo::All {
                self.mirror.judged_all();
            }
            Ok((all, undecided))
        });
        let (mut all, mut failed) = judged.inspect_err(|_| self.mirror.put_back(&todo))?;
        all.retain(|ino| !failed.contains(ino));
        let mut queue = Queue::new(all);
        while let Some(ino) = queue.next(|ino| self.mirror.ranges.is_busy(ino)) {
            let copied = self.copy(objects, ino);
            if copied.is_ok() {
                self.mirror.lock().copied(ino);
            }
            if let Err(error) = copied {
                failed.insert(ino);
                if self.link.is_broken() || self.is_over() {
                    failed.extend(queue.rest());
                    self.mirror.put_back(&Todo::These(failed));
                    return Err(error);
                }
                self.mirror.note_trouble(format!("object {ino:016x} cannot be copied: {error}"));
            }
        }
        if !failed.is_empty() {
            self.mirror.put_back(&Todo::These(failed));
            std::thread::sleep(PAUSE_MAX);
        }
        Ok(())
    }

    /// Every object that either of the nodes has.
    fn all(&mut self, objects: &Objects) -> io::Result<BTreeSet<u64>> {
        let mut all: BTreeSet<u64> = objects.list()?.into_iter().collect();
        all.extend(self.link.list()?);
        Ok(all)
    }

    /// Holds a range once those are done who hold some of it, and before others do, unless this connection's time is
    /// over meanwhile: who has it may wait for that.
    pub(super) fn hold(&self, ino: u64, range: Range<u64>) -> io::Result<Held<'a>> {
        let claim = self.mirror.ranges.claim(ino, range);
        loop {
            if let Some(held) = claim.try_hold() {
                return Ok(held);
            }
            if self.is_over() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            std::thread::sleep(IN_THE_WAY);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let progress = self.mirror.lock();
        progress.closed || progress.epoch != self.epoch
    }
}

impl Mirror {
    /// What the mirror had when it was found first, by what its node has noted, and under which verifier of the
    /// fragment.
    fn note_had(&self, noted: Note, verifier: Option<u64>) {
        let mut progress = self.lock();
        if progress.had.is_some() {
            return;
        }
        let all = noted.is_some() && !progress.alone;
        let still = all && verifier == Some(self.verifier.number());
        let lacking = noted.unwrap_or_default();
        if still {
            progress.lacking = Todo::These(lacking.clone());
        }
        progress.had = Some(Had { all, still, lacking });
    }

    /// The mirror says which life it lives.
    ///
    /// # Errors
    /// It may lack something, which cannot be noted: it is heard again.
    fn heard(&self, life: u64, is_older: bool) -> io::Result<()> {
        let mut progress = self.lock();
        if is_older || progress.life.is_some_and(|before| before != life) {
            // It has lost what was answered and not synced, or all since it was copied.
            (progress.todo, progress.lacking) = (Todo::All, Todo::All);
            let why = if is_older { "an older copy of the mirror was put back" } else { LOST_UNSYNCED };
            progress.trouble = Some(why.into());
            self.note_alone(&mut progress)?;
        }
        progress.life = Some(life);
        if !progress.todo.is_none() {
            progress.whole = false;
        }
        Ok(())
    }

    /// From here on changes go to the mirror as well.
    fn found(&self) -> u64 {
        let mut progress = self.lock();
        progress.way = Way::Both;
        if progress.whole && !progress.alone {
            progress.doubt.end();
        }
        progress.epoch += 1;
        progress.waiting_since = None;
        progress.asked.told = false;
        progress.trouble = None;
        self.changed.notify_all();
        progress.epoch
    }

    /// Whether everything was copied: the mirror lacks nothing then that this node has.
    fn copied_all(&self) -> bool {
        let mut progress = self.lock();
        let is_done = progress.way == Way::Both && progress.todo.is_none();
        if is_done {
            progress.lacking = Todo::none();
        }
        is_done
    }

    /// The mirror has everything, if nothing went wrong since.
    fn completed(&self) {
        let mut progress = self.lock();
        if progress.way != Way::Both || !progress.todo.is_none() {
            return;
        }
        if progress.alone {
            if let Err(error) = alone::note_alone(&*self.notes, false) {
                let path = self.notes.path_of("");
                tracing::error!(path = %path.display(), %error, "cannot note that the mirror is up to date");
                return;
            }
            tracing::info!(
                node = self.place.node(),
                "the mirror of this part of a buffer is up to date again"
            );
        }
        (progress.alone, progress.whole, progress.trouble) = (false, true, None);
        progress.was_whole = true;
        progress.had = Some(Had { all: true, still: true, lacking: BTreeSet::new() });
        progress.doubt.end();
        // Who waits for control to know of it need not any more.
        self.changed.notify_all();
    }

    fn put_back(&self, todo: &Todo) {
        let mut progress = self.lock();
        match todo {
            Todo::All => progress.todo = Todo::All,
            Todo::These(these) => these.iter().for_each(|ino| progress.todo.add(&[*ino])),
        }
    }
}
