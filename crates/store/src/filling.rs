//! The thread that finds the way to the mirror, and copies to it what it lacks, beside changes of the same objects.
//!
//! **Invariant:** an object that may differ is noted as such until it was copied as a whole after that.

mod copying;
mod judging;
mod watching;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use model::Ino;
use wire::data::{Reply, Request};

use crate::mirror::link::Link;
use crate::mirror::ranges::Held;
use crate::mirror::todo::{Queue, Todo};
use crate::mirror::{LACKING_MAX, Mirror, Note};
use crate::objects::Objects;

/// How soon to look for the mirror again: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often to ask a mirror that has everything whether it is there.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How soon to look again at somebody else's change that is in the way.
const IN_THE_WAY: Duration = Duration::from_millis(1);

/// Starts it.
pub fn start(objects: &Arc<Objects>, mirror: &Arc<Mirror>) -> io::Result<()> {
    watching::start(mirror)?;
    let (objects, mirror) = (Arc::downgrade(objects), mirror.clone());
    std::thread::Builder::new().name("mirror".into()).spawn(move || run(&objects, &mirror)).map(drop)
}

fn run(objects: &Weak<Objects>, mirror: &Mirror) {
    let mut pause = PAUSE_MIN;
    while !mirror.is_closed() && objects.strong_count() > 0 {
        if let Err(error) = Filling::begin(objects, mirror).and_then(|mut filling| {
            pause = PAUSE_MIN;
            filling.run()
        }) {
            mirror.lost(&error);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    // Nobody watches its node for a fragment that could not be opened.
    mirror.close();
}

/// What one connection does.
struct Filling<'a> {
    objects: &'a Weak<Objects>,
    mirror: &'a Mirror,
    link: Link,
    epoch: u64,
    /// What the mirror's node has noted that it lacks, if that is known.
    told: Option<Note>,
}

impl<'a> Filling<'a> {
    /// Finds the way: from here on changes are made on both nodes.
    fn begin(objects: &'a Weak<Objects>, mirror: &'a Mirror) -> io::Result<Filling<'a>> {
        let epoch = mirror.epoch();
        let mut link = Link::reach(mirror.place(), epoch)?;
        // What was sent by connections that broke must not be done later.
        link.ask(&Request::Fence, &[])?;
        let Reply::Mirror { whole, lacking, verifier, .. } = link.ask(&Request::FindMirror, &[])? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let here = objects.upgrade().ok_or(io::ErrorKind::ConnectionAborted)?;
        let is_older = mirror
            .meet(&mut link, || here.keeper().unverified.lose_mirror().and_then(|()| mirror.note_older()))?;
        let noted: Note = whole.then(|| lacking.into_iter().collect());
        mirror.note_had(noted.clone().filter(|_| !is_older), verifier);
        let begin = Request::BeginMirror { verifier: mirror.verifier() };
        let Reply::Mirror { life, .. } = link.ask(&begin, &[])? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        mirror.heard(life)?;
        let mut filling = Filling { objects, mirror, link, epoch, told: Some(noted) };
        filling.tell(&here)?;
        let (epoch, now) = mirror.found();
        Ok(Filling { link: filling.link.watched(now, epoch), epoch, ..filling })
    }

    /// Copies what differs, and then looks whether the mirror is there, until it is not.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let Some(objects) = self.objects.upgrade() else { return Ok(()) };
            self.tell(&objects)?;
            let todo = self.mirror.take_todo();
            if !todo.is_none() {
                self.fill(&objects, todo)?;
            } else if !self.mirror.is_completed() {
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

    /// Has the mirror's node note what the mirror lacks.
    fn tell(&mut self, objects: &Objects) -> io::Result<()> {
        let note = self.mirror.to_note(objects.lost(LACKING_MAX + 1));
        if self.told.as_ref() != Some(&note) {
            let lacking = note.iter().flatten().copied().collect();
            self.link.ask(&Request::NoteMirror { whole: note.is_some(), lacking }, &[])?;
        }
        self.mirror.noted(&note, self.epoch);
        self.told = Some(note);
        Ok(())
    }

    /// The mirror of this object is about to be thrown away, and made anew.
    fn begin_anew(&mut self, objects: &Objects, ino: Ino) -> io::Result<()> {
        self.mirror.lacks_all_of(ino);
        self.tell(objects)
    }

    /// Waits until there is something to be done. Returns whether there may be. Whoever watches the node may have
    /// reached another life of it, which this connection is not of.
    fn rest(&mut self) -> io::Result<bool> {
        let is_idle = self.mirror.await_todo(self.epoch, ASK_EVERY);
        let goes_on = !self.is_over();
        if goes_on && is_idle {
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
        while let Some(ino) = queue.next(|ino| self.mirror.is_busy(ino)) {
            let copied = self.copy(objects, ino);
            if copied.is_ok() {
                self.mirror.copied(ino);
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
    fn all(&mut self, objects: &Objects) -> io::Result<BTreeSet<Ino>> {
        let mut all: BTreeSet<Ino> = objects.list()?.into_iter().collect();
        all.extend(self.link.list()?);
        Ok(all)
    }

    /// Holds a range once those are done who hold some of it, and before others do, unless this connection's time is
    /// over meanwhile: whoever has it may wait for that.
    fn hold(&self, ino: Ino, range: Range<u64>) -> io::Result<Held<'a>> {
        let claim = self.mirror.claim(ino, range);
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

    fn is_over(&self) -> bool {
        self.mirror.is_over(self.epoch)
    }
}
