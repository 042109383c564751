//! In which term each fragment of an instance is, as this node has heard: how often another node took its place. Who
//! speaks for a fragment in a lower one was given up for lost, and is refused by name, whatever it has.
//!
//! ```text
//! FRAGMENT/terms.json    the highest terms heard of, by fragment; those that are not there are 0
//! ```
//!
//! A fragment that is refused so, or that finds a higher term of its own here, is replaced: it serves nobody any more.
//!
//! **Invariant:** a higher term is durable here before anything is done for who speaks in it, and nothing is begun
//! after that for who speaks in a lower one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use disk::format;
use model::FragmentIndex;
use wire::data::hello::{HelloError, Refusal};
use wire::data::member::{Member, Role};

use crate::formats;

/// Those of one instance.
pub(crate) struct Terms {
    path: PathBuf,
    /// The fragment here.
    fragment: FragmentIndex,
    term: u32,
    heard: Mutex<BTreeMap<FragmentIndex, u32>>,
    replaced: AtomicBool,
    then: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms")
            .field("fragment", &self.fragment)
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}

impl Terms {
    /// As the fragment below `folder` has heard of them, which is made in this term.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub(crate) fn open(folder: &Path, fragment: FragmentIndex, term: u32) -> io::Result<Arc<Terms>> {
        let path = folder.join("terms.json");
        let heard: BTreeMap<FragmentIndex, u32> = match disk::read(&path)? {
            Some(text) => format::decode(&text, formats::TERMS)?,
            None => BTreeMap::new(),
        };
        let is_replaced = heard.get(&fragment).is_some_and(|heard| *heard > term);
        let (heard, replaced) = (Mutex::new(heard), AtomicBool::new(is_replaced));
        Ok(Arc::new(Terms { path, fragment, term, heard, replaced, then: OnceLock::new() }))
    }

    /// The fragment here, as it speaks to others.
    pub(crate) fn member(&self, role: Role) -> Member {
        Member { role, fragment: self.fragment, term: self.term }
    }

    /// From now on `then` is called when the fragment here is found to be replaced. The first call counts.
    pub(crate) fn when_replaced(&self, then: impl Fn() + Send + Sync + 'static) {
        let _set = self.then.set(Box::new(then));
    }

    /// Whether another node has taken this one's place.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Another fragment speaks: does what admits it, unless it was replaced. Nobody who was is admitted after that.
    ///
    /// # Errors
    /// It was replaced; its term cannot be noted; `admit` has nothing.
    pub(crate) fn hear<T>(&self, member: Member, admit: impl FnOnce() -> Option<T>) -> Result<T, Refusal> {
        let mut heard = self.lock();
        let known = heard.get(&member.fragment).copied().unwrap_or(0);
        if member.term < known {
            return Err(Refusal::Superseded);
        }
        if member.term > known
            && let Err(error) = self.note(&mut heard, member.fragment, member.term)
        {
            tracing::error!(path = %self.path.display(), %error, "cannot note that a fragment has another node");
            return Err(Refusal::Busy);
        }
        admit().ok_or(Refusal::NoSuchFragment)
    }

    /// Whether nobody who followed it was heard of.
    pub(crate) fn is_current(&self, member: Member) -> bool {
        self.lock().get(&member.fragment).is_none_or(|known| member.term >= *known)
    }

    /// A node did not let this one's fragment in: that says whether it was replaced.
    pub(crate) fn heed(&self, error: &HelloError) {
        if matches!(error, HelloError::Refused(Refusal::Superseded)) {
            self.lose();
        }
    }

    /// Whether the next life of this one knows by itself that it was replaced.
    pub(crate) fn is_noted(&self) -> bool {
        self.lock().get(&self.fragment).is_some_and(|heard| *heard > self.term)
    }

    /// Another node has taken this one's place.
    pub(crate) fn lose(&self) {
        if self.replaced.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::error!(
            path = %self.path.display(),
            "another node has taken the place of this fragment, which was given up for lost: it is not served any more"
        );
        if let Err(error) = self.note(&mut self.lock(), self.fragment, self.term.saturating_add(1)) {
            // The next life is told again.
            tracing::error!(path = %self.path.display(), %error, "cannot note that the fragment is replaced");
        }
        self.then.get().iter().for_each(|then| then());
    }

    fn note(
        &self,
        heard: &mut BTreeMap<FragmentIndex, u32>,
        fragment: FragmentIndex,
        term: u32,
    ) -> io::Result<()> {
        let mut next = heard.clone();
        next.insert(fragment, term);
        disk::replace(&self.path, &format::encode(&next, formats::TERMS)?)?;
        *heard = next;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FragmentIndex, u32>> {
        self.heard.lock().expect("no thread panics while it holds the terms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(dir: &Path) -> Arc<Terms> {
        Terms::open(dir, FragmentIndex(0), 0).unwrap()
    }

    #[test]
    fn who_was_followed_is_refused_from_then_on_and_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let speaks = |term| Member { role: Role::Mirroring, fragment: FragmentIndex(2), term };
        let terms = at(dir.path());
        assert_eq!(terms.hear(speaks(0), || Some(1)), Ok(1));
        assert_eq!(terms.hear(speaks(1), || Some(2)), Ok(2));
        for terms in [terms, at(dir.path())] {
            assert_eq!(terms.hear(speaks(0), || Some(3)), Err(Refusal::Superseded));
            assert!(!terms.is_current(speaks(0)) && terms.is_current(speaks(1)) && !terms.is_replaced());
        }
    }

    #[test]
    fn what_was_heard_is_kept_as_it_always_was() {
        let dir = tempfile::tempdir().unwrap();
        let member = Member { role: Role::Mirroring, fragment: FragmentIndex(12), term: 3 };
        assert_eq!(at(dir.path()).hear(member, || Some(())), Ok(()));
        let file = dir.path().join("terms.json");
        let kept = r#"{"12":3,"crc32c":"995777e5","format":1}"#;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
        // As it was before there were checksums.
        std::fs::write(&file, r#"{"12":4}"#).unwrap();
        assert_eq!(at(dir.path()).hear(member, || Some(())), Err(Refusal::Superseded));
    }

    #[test]
    fn what_is_damaged_or_of_a_newer_forebay_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("terms.json");
        for (text, is_newer) in [(r#"{"12":"#, false), (r#"{"format":2,"12":3}"#, true)] {
            std::fs::write(&file, text).unwrap();
            let refused = Terms::open(dir.path(), FragmentIndex(0), 0).unwrap_err();
            assert_eq!(format::is_newer(&refused), is_newer, "{refused}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn one_that_is_replaced_says_so_once_and_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let (terms, told) = (at(dir.path()), std::sync::mpsc::channel());
        terms.when_replaced(move || told.0.send(()).unwrap());
        terms.heed(&HelloError::Refused(Refusal::Moved));
        assert!(!terms.is_replaced(), "that is the other's misfortune");
        terms.heed(&HelloError::Refused(Refusal::Superseded));
        terms.heed(&HelloError::Refused(Refusal::Superseded));
        assert_eq!(told.1.try_iter().count(), 1);
        assert!(terms.is_replaced() && at(dir.path()).is_replaced());
    }
}
