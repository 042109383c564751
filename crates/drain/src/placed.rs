//! Which inode this drainer has put under a name on the PFS: what may be removed there again.
//!
//! **Invariant:** somebody else's file, and one that was touched since, is never taken for the drainer's.

use std::io::Read;
use std::path::{Path, PathBuf};

use disk::below::Root;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::generation::{Seen, Stamp, now};

/// As many as are remembered that were about to get a name and were not seen there.
const BEFORE_MAX: usize = 32;

/// Longer than one tick of a clock of whole seconds, and what two clocks differ by, seconds.
const WHOLE_TICKS: i64 = 2;

/// Bytes that are read at once.
const SUM_AT_ONCE: usize = 1 << 20;

/// An inode as it was when it got its name. Numbers are used again: the size and the times tell a later one from it.
/// Its device is not noted: the number of one is another after a remount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placed {
    ino: u64,
    size: u64,
    mtime: Stamp,
    /// `None`: it was about to get the name, which changes this time.
    ctime: Option<Stamp>,
    /// What it holds was compared when no change could have this time any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rests: bool,
}

/// What had a name when another was about to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// Nothing, or what may not go for it.
    Nothing,
    /// This.
    It(Placed),
}

/// What may have a name: what was put under it last, and before, as that may not have got it.
#[derive(Clone, Debug)]
pub(crate) struct Under {
    last: Placed,
    /// What was seen there, then what was about to get the name since, oldest first.
    before: Vec<Placed>,
    /// What had the name when the last was about to get it, where that was noted.
    over: Option<Over>,
}

/// What was put under the names on the PFS.
pub(crate) trait Names: Send + Sync {
    /// What may have the name, if anything was put there.
    fn under(&self, name: &Path) -> Option<Under>;

    /// Notes which inode is put there, and in place of what.
    fn note(&self, name: &Path, inode: Placed, over: Option<Over>);

    /// What had the name before the first copy for it was begun, where none is known to have got it since.
    fn first(&self, name: &Path) -> Option<Over>;

    /// Those in this folder.
    fn within(&self, folder: &Path) -> Vec<PathBuf>;
}

/// Nothing is noted of any name.
pub(crate) struct Unnoted;

impl Names for Unnoted {
    fn under(&self, _: &Path) -> Option<Under> {
        None
    }

    fn note(&self, _: &Path, _: Placed, _: Option<Over>) {}

    fn first(&self, _: &Path) -> Option<Over> {
        None
    }

    fn within(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

impl Placed {
    /// What is about to get its name.
    pub(crate) fn before(part: &Seen) -> Placed {
        let seen = &part.generation;
        Placed { ino: seen.ino, size: seen.size, mtime: seen.mtime, ctime: None, rests: false }
    }

    /// What has just got its name.
    pub(crate) fn now(there: &Seen) -> Placed {
        Placed { ctime: Some(there.generation.ctime), ..Placed::before(there) }
    }

    /// The same of what was compared now.
    pub(crate) fn compared(there: &Seen) -> Placed {
        let rests = there.generation.ctime.0 + WHOLE_TICKS < now().0;
        Placed { rests, ..Placed::now(there) }
    }

    /// Whether a later change may have the same times, and be seen in the contents only: where times are whole seconds,
    /// in the second in which this got its name, if it was written in that, too.
    fn is_unsure(&self) -> bool {
        !self.rests && self.mtime.1 == 0 && self.ctime == Some(self.mtime)
    }

    /// Whether it was seen under its name.
    pub(crate) fn is_there(&self) -> bool {
        self.ctime.is_some()
    }

    /// Why what is there now is not this, but for who has touched it: what it holds must tell then.
    fn is_another(&self, there: &Seen) -> Option<&'static str> {
        Placed { ctime: None, ..*self }.differs(there)
    }

    /// Whether what is there is this, and nobody has touched it.
    fn is(&self, there: &Seen) -> bool {
        self.ctime.is_some() && !self.is_unsure() && self.differs(there).is_none()
    }

    /// Why what is there now is not this, as it was left: also where its contents, its mode or its names were changed,
    /// and its other times set back.
    pub(crate) fn differs(&self, there: &Seen) -> Option<&'static str> {
        let now = Placed::now(there);
        match () {
            () if now.ino != self.ino => Some("another file is there now"),
            () if (now.size, now.mtime) != (self.size, self.mtime) => Some("it was changed there"),
            () if self.ctime.is_some() && self.ctime != now.ctime => Some("it was changed or touched there"),
            () => None,
        }
    }
}

impl Under {
    /// What was noted first.
    pub(crate) fn new(first: Placed, over: Option<Over>) -> Under {
        Under { last: first, before: Vec::new(), over }
    }

    /// Something has got the name, or is about to, in place of this.
    pub(crate) fn note(&mut self, placed: Placed, over: Option<Over>) {
        let before = std::mem::replace(&mut self.last, placed);
        self.over = over;
        if placed.ctime.is_some() {
            self.before = Vec::new();
            return;
        }
        if self.before.len() >= BEFORE_MAX {
            // Not the first, which was seen there.
            self.before.remove(1);
        }
        self.before.push(before);
    }

    /// Whether one of it had the name for sure.
    pub(crate) fn had_name(&self) -> bool {
        self.all().any(|placed| placed.ctime.is_some())
    }

    /// Whether what is there now came after what was noted, and is nothing of it: by what had the name when the last
    /// was about to get it, whether that got it or not.
    pub(crate) fn is_succeeded(&self, there: &Seen) -> bool {
        let is_over = |over| matches!(over, Over::It(over) if Placed::differs(&over, there).is_none());
        self.differs(there).is_some() && self.over.is_some_and(|over| !is_over(over))
    }

    /// Whether what is there now was about to get the name last, and is not known to have got it.
    pub(crate) fn is_begun(&self, there: &Seen) -> bool {
        self.last.ctime.is_none() && self.last.differs(there).is_none()
    }

    /// Whether this was noted of it, or more.
    pub(crate) fn knows(&self, placed: &Placed) -> bool {
        let is_it = |known: &Placed| {
            let is_seen = known.is_there() || !placed.is_there();
            let bare = |it: &Placed| Placed { ctime: None, rests: false, ..*it };
            is_seen && bare(known) == bare(placed)
        };
        self.all().any(is_it)
    }

    /// All that was noted, oldest first, each with what had the name then.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (Placed, Option<Over>)> {
        let before = self.before.iter().map(|placed| (*placed, None));
        before.chain([(self.last, self.over)])
    }

    /// Whether what is there now is one of it, and nobody has touched it.
    pub(crate) fn has(&self, there: &Seen) -> bool {
        self.all().any(|placed| placed.is(there))
    }

    /// Whether what is there now has the inode of one of it.
    pub(crate) fn has_inode(&self, there: &Seen) -> bool {
        self.all().any(|placed| placed.ino == there.generation.ino)
    }

    /// Why what is there now is none of it, as [`Placed::is_another`].
    pub(crate) fn is_another(&self, there: &Seen) -> Option<&'static str> {
        self.why(|placed| placed.is_another(there))
    }

    /// Why what is there now is none of it, as it was left.
    pub(crate) fn differs(&self, there: &Seen) -> Option<&'static str> {
        self.why(|placed| placed.differs(there))
    }

    /// Why the last is not it, unless there is one of which nothing says that.
    fn why(&self, why: impl Fn(&Placed) -> Option<&'static str>) -> Option<&'static str> {
        self.all().map(why).reduce(Option::and).flatten()
    }

    fn all(&self) -> impl Iterator<Item = &Placed> {
        self.before.iter().chain([&self.last])
    }
}

/// CRC32C of what the file `target` below `root` holds now.
///
/// # Errors
/// The file system's.
pub(crate) fn sum_of(root: &Root, target: &Path) -> std::io::Result<u32> {
    let mut file = root.open_file(target, OFlags::RDONLY, Mode::empty())?;
    let (mut sum, mut buffer) = (0, vec![0; SUM_AT_ONCE]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            len => sum = crc32c::crc32c_append(sum, &buffer[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::look;

    #[test]
    fn only_what_was_put_there_and_is_as_it_was_is_the_drainers() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "text").unwrap();
        let seen = look(&Root::at(folder.path()), Path::new("a")).unwrap();
        let (before, now) = (Placed::before(&seen), Placed::now(&seen));
        let differs = |placed: &[Placed]| {
            let mut under = Under::new(placed[0], None);
            placed[1..].iter().for_each(|placed| under.note(*placed, None));
            under.differs(&seen).is_some()
        };
        let another = Placed { ino: seen.generation.ino + 1, ..now };
        assert!(differs(&[another]));
        assert!(differs(&[Placed { size: 5, ..before }]));
        assert!(differs(&[Placed { ctime: Some((1, 2)), ..now }]));
        assert!(differs(&[now, another]), "that had the name after this");
        // A drainer was killed between the rename and the second note.
        assert!(!differs(&[before]) && !differs(&[now]));
    }

    #[test]
    fn what_did_not_get_a_name_takes_it_from_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "text").unwrap();
        let seen = look(&Root::at(folder.path()), Path::new("a")).unwrap();
        let now = Placed::now(&seen);
        let later = Placed { ino: seen.generation.ino + 1, ctime: None, ..now };
        let mut known = Under::new(now, None);
        (0..2 * BEFORE_MAX as u64).for_each(|n| known.note(Placed { size: n + 5, ..later }, None));
        assert!(known.has(&seen) && known.had_name());
        assert_eq!((known.differs(&seen), known.before.len()), (None, BEFORE_MAX));
    }

    #[test]
    fn what_comes_to_a_name_after_another_was_about_to_get_it_is_told_from_what_had_it() {
        let folder = tempfile::tempdir().unwrap();
        let seen = |name: &str| {
            std::fs::write(folder.path().join(name), name).unwrap();
            look(&Root::at(folder.path()), Path::new(name)).unwrap()
        };
        let (earlier, part, later) = (seen("earlier"), seen("part"), seen("later"));
        let known = |over| Under::new(Placed::before(&part), over);
        let over = Some(Over::It(Placed::now(&earlier)));
        let succeeded = |over| [&earlier, &part, &later].map(|there| known(over).is_succeeded(there));
        assert_eq!(succeeded(over), [false, false, true]);
        assert_eq!(succeeded(Some(Over::Nothing)), [true, false, true]);
        assert_eq!(succeeded(None), [false; 3], "an earlier release noted nothing");
    }
}
