//! Objects in doubt: their checksums were lost here, so that nobody knows whether their bytes are what was written, or
//! they are not here, and nobody knows whether they should be.
//!
//! ```text
//! it was being taken from the mirror when that was cut short
//!     no file has it                          it is removed on both
//!     the mirror is the same as then          that goes on: nobody has used it here since
//!     else                                    nobody uses it until it is removed or written anew
//! its checksums were lost; the mirror had all that was answered
//!     the mirror's is sealed, or the same     it is what was written: it is taken from there, and known again
//!     else                                    neither is put over the other until a person has decided
//! it is not here
//!     no file has it                          it is removed there, too
//!     a file has it; the mirror had all       it is taken from there
//!     a file has it, else                     it is lost, by name; what the mirror has of it stays
//! ```
//!
//! **Invariant:** what nobody can tell to be right is not put over what the mirror has, and nothing is removed there
//! for not being here, unless no file has it.

use std::collections::BTreeSet;
use std::io;

use model::Ino;
use wire::advice::TOKEN;
use wire::data::message::UNKNOWN_BYTES;
use wire::data::{PAYLOAD_BYTES_MAX, Reply, Request};

use super::Filling;
use super::copying::There;
use crate::mirror::Had;
use crate::mirror::link::Link;
use crate::objects::Objects;

/// Nobody but a person can decide.
fn undecided(why: &str) -> io::Error {
    io::Error::other(format!(
        "{why}: remove the file, write it anew, or take it as it is with `forebay fsck {TOKEN} --repair`"
    ))
}

impl Filling<'_> {
    /// Judges those of these objects that are in doubt. Those on which nothing can be decided stay so on both nodes.
    ///
    /// # Errors
    /// The connection's, or this node's.
    pub(super) fn judge_all(
        &mut self,
        objects: &Objects,
        mut left: BTreeSet<Ino>,
    ) -> io::Result<BTreeSet<Ino>> {
        let mut undecided = BTreeSet::new();
        while let Some(ino) = self.mirror.next_to_judge(&mut left) {
            if !objects.is_in_doubt(ino)? {
                continue;
            }
            if let Err(error) = self.judge(objects, ino) {
                if self.link.is_broken() || self.is_over() {
                    return Err(error);
                }
                undecided.insert(ino);
                self.mirror
                    .note_trouble(format!("object {ino:016x} is on neither node for certain: {error}"));
            }
        }
        Ok(undecided)
    }

    fn judge(&mut self, objects: &Objects, ino: Ino) -> io::Result<()> {
        let _held = self.hold(ino, 0..u64::MAX)?;
        let had = self.mirror.had(ino);
        // It may have been made, written anew or removed meanwhile.
        if !objects.is_in_doubt(ino)? {
            return Ok(());
        }
        if objects.is_taken(ino) {
            return self.go_on_taking(objects, ino);
        }
        if !objects.is_there(ino)? {
            return self.judge_absent(objects, ino, &had);
        }
        if !had.still {
            let why = "its checksums were lost, and the mirror may lack changes";
            return Err(undecided(why));
        }
        let there = self.there(ino)?;
        if there.sealed {
            return self.take(objects, ino, &there, false);
        }
        if !self.is_same(objects, ino, there.size)? {
            let why = "its checksums were lost, the mirror has no checksums of it either, and the two differ";
            return Err(undecided(why));
        }
        objects.settle_taken(ino, None)
    }

    fn go_on_taking(&mut self, objects: &Objects, ino: Ino) -> io::Result<()> {
        if !self.is_meant(ino)? {
            self.ask(&Request::Destroy { ino })?;
            return objects.drop_taken(ino);
        }
        let there = self.there(ino)?;
        let is_there = there.sealed || (there.size > 0 && !there.unverified);
        if is_there && objects.keeper().unverified.is_in_mirror(ino) {
            return self.take(objects, ino, &there, true);
        }
        let why = "it was being taken from the mirror, which does not have it any more as it was: remove the file, or \
                   write it anew";
        Err(io::Error::other(why))
    }

    fn judge_absent(&mut self, objects: &Objects, ino: Ino, had: &Had) -> io::Result<()> {
        let there = self.there(ino)?;
        let doubts = &objects.keeper().unverified;
        let never_was = there.size == 0 && !doubts.has(ino);
        if never_was || !self.is_meant(ino)? {
            self.ask(&Request::Destroy { ino })?;
            doubts.forget(ino);
            return Ok(());
        }
        if had.all && !there.unverified {
            return self.take(objects, ino, &there, true);
        }
        let node = self.mirror.place().node();
        tracing::error!(%ino, ?node, "an object is gone, and its mirror may lack changes: it is lost");
        let was = if there.size == 0 { UNKNOWN_BYTES } else { there.size };
        objects.keeper().lost.add(ino, was)?;
        doubts.forget(ino);
        Ok(())
    }

    /// Whether a file has the object, as the home of the metadata knows.
    fn is_meant(&self, ino: Ino) -> io::Result<bool> {
        let home = self.mirror.home().ok_or(io::ErrorKind::NotFound)?;
        let away = |error: io::Error| {
            let home = home.node();
            io::Error::other(format!("whether a file has it cannot be asked of node {home}: {error}"))
        };
        let mut link = Link::reach(home, 0).map_err(away)?;
        let fragment = self.mirror.fragment();
        let listed = link.ask(&Request::ListMeant { fragment, after: ino.before() }, &[]);
        match listed.map_err(away)? {
            Reply::Objects(page) => Ok(page.first().is_some_and(|(first, _)| *first == ino)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Makes the object what the mirror has, which is read as that sealed it; `is_gone`: all of it, also the time. From
    /// the first change on nobody uses it before it is whole.
    fn take(&mut self, objects: &Objects, ino: Ino, there: &There, is_gone: bool) -> io::Result<()> {
        let mut differs = is_gone;
        if is_gone || objects.measure(ino)?.is_none_or(|found| found.size != there.size) {
            objects.begin_taken(ino)?;
            objects.take_length(ino, there.size)?;
            differs = true;
        }
        let mut at = 0;
        while let Some((start, bytes, is_same)) = self.compare(objects, ino, (at, there.size))? {
            at = start + bytes.len() as u64;
            if !is_same {
                objects.begin_taken(ino)?;
                objects.take(ino, start, &bytes)?;
                differs = true;
            }
        }
        objects.settle_taken(ino, is_gone.then_some(there.mtime))?;
        if differs {
            objects.keeper().count_repairs(1);
            let (object, from) = (objects.path(ino), self.mirror.place().node());
            tracing::warn!(
                %ino,
                object = %object.display(),
                ?from,
                "an object in doubt was damaged, and was repaired from its other copy"
            );
        }
        Ok(())
    }

    fn is_same(&mut self, objects: &Objects, ino: Ino, size: u64) -> io::Result<bool> {
        if objects.measure(ino)?.map_or(0, |found| found.size) != size {
            return Ok(false);
        }
        let mut at = 0;
        while let Some((start, bytes, is_same)) = self.compare(objects, ino, (at, size))? {
            if !is_same {
                return Ok(false);
            }
            at = start + bytes.len() as u64;
        }
        Ok(true)
    }

    /// The first bytes from `at` on that either node has: where, what the mirror has, and whether this node has the
    /// same; `None`: there are no more.
    fn compare(
        &mut self,
        objects: &Objects,
        ino: Ino,
        (at, size): (u64, u64),
    ) -> io::Result<Option<(u64, Vec<u8>, bool)>> {
        let Reply::Range(there) = self.ask(&Request::NextData { ino, offset: at })? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        // What cannot be read here is no hole.
        let here =
            objects.next_data_unjudged(ino, at).map_or(Some(at), |found| found.map(|range| range.start));
        let Some(start) = there.map(|range| range.0).into_iter().chain(here).min() else { return Ok(None) };
        if start >= size {
            return Ok(None);
        }
        let len = usize::try_from(size - start).unwrap_or(usize::MAX).min(PAYLOAD_BYTES_MAX);
        let bytes = self.read(ino, start, len)?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut own = vec![0; bytes.len()];
        let is_same = objects.read_unjudged(ino, start, &mut own).is_ok_and(|read| own[..read] == bytes);
        Ok(Some((start, bytes, is_same)))
    }
}
