//! What is put in the place of a copy, or in its way, while it gets its name.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use stage::tree::Target as _;

use super::*;
use crate::placed::Under;

type Act = Box<dyn Fn() + Send + Sync>;

/// What was about to get the name, in place of what.
type Note = (Placed, Option<Over>);

/// What is noted; at the first note something happens.
#[derive(Clone, Default)]
struct Noted {
    under: Arc<Mutex<Option<Under>>>,
    notes: Arc<Mutex<Vec<Note>>>,
    first: Arc<Mutex<Option<Act>>>,
}

impl Names for Noted {
    fn under(&self, _: &Path) -> Option<Under> {
        self.under.lock().unwrap().clone()
    }

    fn note(&self, _: &Path, inode: Placed, over: Option<Over>) {
        if let Some(act) = self.first.lock().unwrap().take() {
            act();
        }
        self.notes.lock().unwrap().push((inode, over));
    }

    fn first(&self, _: &Path) -> Option<Over> {
        None
    }

    fn within(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

impl Noted {
    /// What is known of the name by what was noted so far.
    fn learn(&self) {
        let mut under = self.under.lock().unwrap();
        for (placed, over) in std::mem::take(&mut *self.notes.lock().unwrap()) {
            match under.as_mut() {
                Some(under) => under.note(placed, over),
                None => *under = Some(Under::new(placed, over)),
            }
        }
    }
}

/// Somebody's way to come to a name.
type Come = fn(&Path);

/// Gives a copy its name after `earlier` came to it, while `then` does what it does: between the look at the name and
/// the rename, or before the look. What became of it, and of another try; and the folder.
fn given_name(
    has_claims: bool,
    earlier: Option<Come>,
    then: (Option<Come>, Option<Come>),
) -> (Target, Noted, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().canonicalize().unwrap();
    let (name, noted) = (to.join("f"), Noted::default());
    let session = to.join("session");
    fs::create_dir(&session).unwrap();
    let claims =
        has_claims.then(|| Arc::new(Claims::open(&session, "n1", 1, Some(HashSet::new())).unwrap().0));
    let target = Target::new(&to, claims, Arc::new(noted.clone()));
    earlier.iter().for_each(|come| come(&name));
    std::thread::sleep(Duration::from_millis(30));
    let (made, file) = target.create(&to.join("part")).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    then.0.iter().for_each(|come| come(&name));
    if let Some(come) = then.1 {
        let name = name.clone();
        *noted.first.lock().unwrap() = Some(Box::new(move || come(&name)));
    }
    let renamed = target.rename(&target.find(&to).unwrap(), &made, &name);
    drop(file);
    noted.learn();
    let came = then.0.is_some() || then.1.is_some();
    assert_eq!(renamed, if came { Err(REPLACED) } else { Ok(()) });
    // A part that did not get the name goes.
    assert_eq!(disk::exists(&to.join("part")).unwrap(), came);
    if came {
        fs::remove_file(to.join("part")).unwrap();
    }
    (target, noted, name, folder)
}

#[test]
fn what_comes_to_a_name_between_the_look_at_it_and_the_rename_or_during_the_copy_is_never_replaced() {
    let write: Come = |name| fs::write(name, "somebody's").unwrap();
    let replace: Come = |name| {
        fs::write(name.with_file_name("other"), "somebody's").unwrap();
        fs::rename(name.with_file_name("other"), name).unwrap();
    };
    let earlier: Come = |name| fs::write(name, "of an earlier job").unwrap();
    for has_claims in [false, true] {
        for there in [None, Some(earlier)] {
            for then in
                [(None, Some(write)), (None, Some(replace)), (Some(write), None), (Some(replace), None)]
            {
                let (target, noted, name, _folder) = given_name(has_claims, there, then);
                assert_eq!(fs::read_to_string(&name).unwrap(), "somebody's");
                // Not at the next try either, until it is moved away.
                let to = name.parent().unwrap();
                let again = || {
                    let (made, _file) = target.create(&to.join("part")).unwrap();
                    let renamed = target.rename(&target.find(to).unwrap(), &made, &name);
                    let _ = fs::remove_file(to.join("part"));
                    noted.learn();
                    renamed
                };
                assert_eq!(again(), Err(REPLACED));
                assert_eq!(fs::read_to_string(&name).unwrap(), "somebody's");
                fs::rename(&name, to.join("mine")).unwrap();
                assert_eq!((again(), again()), (Ok(()), Ok(())));
                assert_eq!(fs::read_to_string(&name).unwrap(), "");
            }
            // Nobody came.
            let (_, _, name, _folder) = given_name(has_claims, there, (None, None));
            assert_eq!(fs::read_to_string(&name).unwrap(), "");
        }
    }
}

/// Gives a copy its name while somebody puts another in its place, before the first look at it or after.
fn renamed_with(swap_at_once: bool) -> (Result<()>, Vec<Note>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().canonicalize().unwrap();
    let (part, noted) = (to.join("part"), Noted::default());
    let swap = {
        let part = part.clone();
        move || {
            fs::write(part.with_file_name("other"), "another").unwrap();
            fs::rename(part.with_file_name("other"), &part).unwrap();
        }
    };
    let target = Target::new(&to, None, Arc::new(noted.clone()));
    let (made, file) = target.create(&part).unwrap();
    if swap_at_once {
        swap();
    } else {
        *noted.first.lock().unwrap() = Some(Box::new(swap));
    }
    let renamed = target.rename(&target.find(&to).unwrap(), &made, &to.join("f"));
    drop(file);
    let notes = std::mem::take(&mut *noted.notes.lock().unwrap());
    (renamed, notes, made.attr.ino.into())
}

#[test]
fn what_somebody_puts_in_the_place_of_a_copy_while_the_next_is_made_stays() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().canonicalize().unwrap();
    let noted = Noted::default();
    let target = Target::new(&to, None, Arc::new(noted.clone()));
    let copy = |part: &str| {
        let (made, _file) = target.create(&to.join(part)).unwrap();
        target.rename(&target.find(&to).unwrap(), &made, &to.join("f"))
    };
    copy("first").unwrap();
    noted.learn();
    fs::write(to.join("f"), "somebody's").unwrap();
    assert_eq!(copy("second"), Err(REPLACED));
    assert_eq!(fs::read_to_string(to.join("f")).unwrap(), "somebody's");
    // It is moved away: what is owed gets its name.
    fs::rename(to.join("f"), to.join("mine")).unwrap();
    fs::remove_file(to.join("second")).unwrap();
    copy("second").unwrap();
}

#[test]
fn what_is_put_in_the_place_of_a_copy_is_never_noted_as_the_drainers() {
    let (renamed, notes, _) = renamed_with(true);
    assert_eq!((renamed, notes.len()), (Err(Errno::STALE), 0));
    // That is seen by who looks at the name.
    let (renamed, notes, ours) = renamed_with(false);
    assert_eq!((renamed, notes.len()), (Ok(()), 1));
    assert!(format!("{notes:?}").contains(&format!("ino: {ours},")), "{notes:?}");
}
