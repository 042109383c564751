//! What lies under a name of the drain's own when it is ended at each step.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::generation::look;
use crate::placed::{Under, Unnoted};

/// A folder with a copy and what it is to replace, called `a`, which was taken from there.
struct Moment {
    _folder: TempDir,
    to: PathBuf,
    aside: PathBuf,
    taken: Taken,
}

fn moment() -> Moment {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().canonicalize().unwrap();
    let [a, copy] = ["a", "copy"].map(|name| to.join(name));
    fs::write(&a, "earlier").unwrap();
    fs::write(&copy, "new").unwrap();
    let root = Root::at(&to);
    let name = aside(
        OsStr::new("x.1-2.part"),
        &look(&root, &copy).unwrap(),
        &look(&root, &a).unwrap(),
        OsStr::new("a"),
    );
    let (aside, taken) = (to.join(name), Taken::of(&to, Arc::new(Unnoted)));
    Moment { _folder: folder, to, aside, taken }
}

impl Moment {
    fn rename(&self, from: &str, to: &Path) {
        fs::rename(self.to.join(from), to).unwrap();
    }

    /// What there is after another run has looked at it, and how much is left.
    fn settled(&self) -> (Option<String>, usize) {
        self.taken.settle(&self.aside).unwrap();
        let left = self.taken.troubles().len();
        assert_eq!(disk::exists(&self.aside).unwrap(), left > 0);
        (fs::read_to_string(self.to.join("a")).ok(), left)
    }
}

#[test]
fn what_may_go_goes_and_what_is_somebodys_gets_its_name_back_whatever_is_forgotten() {
    // Before the two change names, or after they have changed back.
    let it = moment();
    it.rename("copy", &it.aside);
    assert_eq!(it.settled(), (Some("earlier".to_owned()), 0));
    // After they have.
    let it = moment();
    it.rename("a", &it.aside);
    it.rename("copy", &it.to.join("a"));
    assert_eq!(it.settled(), (Some("new".to_owned()), 0));
    // Somebody's was there by then.
    let it = moment();
    fs::write(it.to.join("a"), "somebody's").unwrap();
    it.rename("a", &it.aside);
    it.rename("copy", &it.to.join("a"));
    assert_eq!(it.settled(), (Some("somebody's".to_owned()), 0));
    assert_eq!(fs::read_dir(&it.to).unwrap().count(), 1);
    // And another has come since: neither is lost.
    let it = moment();
    fs::write(it.to.join("a"), "somebody's").unwrap();
    it.rename("a", &it.aside);
    fs::write(it.to.join("a"), "another's").unwrap();
    assert_eq!(it.settled(), (Some("another's".to_owned()), 1));
    assert_eq!(fs::read_to_string(&it.aside).unwrap(), "somebody's");
    // Until it is moved away.
    fs::rename(&it.aside, it.to.join("mine")).unwrap();
    assert_eq!(it.taken.troubles(), []);
    // One that is back, as it was given back by two names and that was ended in between, is in nobody's way.
    let it = moment();
    fs::write(it.to.join("a"), "somebody's").unwrap();
    it.rename("a", &it.aside);
    fs::hard_link(&it.aside, it.to.join("a")).unwrap();
    assert_eq!(it.settled(), (Some("somebody's".to_owned()), 0));
    // Nobody knows what it was called.
    let it = moment();
    fs::write(it.to.join("a"), "somebody's").unwrap();
    it.rename("a", &it.aside);
    assert_eq!(it.settled(), (None, 1));
}

#[test]
fn what_is_not_as_it_was_put_there_is_not_removed() {
    let it = moment();
    let seen = look(&Root::at(&it.to), Path::new("a")).unwrap();
    let removed =
        |placed: Option<Under>| it.taken.remove(Path::new("a"), || "x.1-3.part".into(), placed.as_ref());
    assert!(matches!(removed(None), Ok(Removal::Kept(_))), "nobody knows whose it is");
    let known = Under::new(Placed::now(&seen), None);
    fs::write(it.to.join("a"), "changed").unwrap();
    assert!(matches!(removed(Some(known.clone())), Ok(Removal::Kept(_))));
    let known = Under::new(Placed::now(&look(&Root::at(&it.to), Path::new("a")).unwrap()), None);
    assert!(matches!(removed(Some(known.clone())), Ok(Removal::Removed)));
    assert!(matches!(removed(Some(known)), Ok(Removal::Removed)), "there is nothing to keep");
    assert_eq!(fs::read_dir(&it.to).unwrap().count(), 1);
}
