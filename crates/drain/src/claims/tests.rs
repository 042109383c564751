//! What hosts tell each other of their names.

use super::*;
use crate::placed::{Over, Placed};

#[test]
fn a_name_that_is_claimed_elsewhere_is_known_until_it_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let of = |host| Claims::open(folder.path(), host, 1, Some(HashSet::new())).unwrap().0;
    let (a, b) = (of("a"), of("b"));
    let name = Path::new("/pfs/out\n1");
    a.claim(&intent(name), true).unwrap();
    assert!(b.is_elsewhere(name).unwrap());
    assert!(!a.is_elsewhere(name).unwrap(), "its own claim is no other's");
    a.give_up(name).unwrap();
    assert!(!b.is_elsewhere(name).unwrap());
    a.claim(&intent(name), true).unwrap();
    a.keep(name);
    a.forget(name).unwrap();
    assert!(!b.is_elsewhere(name).unwrap() && !a.has(name), "it was removed");
}

#[test]
fn what_was_about_to_be_published_is_known_to_the_next_drainer_of_the_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let of = |of| Claims::open(folder.path(), "a", of, None).unwrap();
    let known = |number| of(number).1.map(|intent| intent.name).collect::<HashSet<_>>();
    let (first, second) = (Path::new("/pfs/1"), Path::new("/pfs/2"));
    let claims = of(1).0;
    [first, second].iter().for_each(|name| claims.claim(&intent(name), false).unwrap());
    assert_eq!((known(1).len(), known(2).len()), (2, 0));
    claims.forget(first).unwrap();
    assert_eq!(known(1), HashSet::from([second.to_owned()]));
}

fn intent(name: &Path) -> Intent {
    let folder = tempfile::tempdir().unwrap();
    let seen = crate::generation::look(&Root::at(folder.path()), Path::new("")).unwrap();
    Intent { name: name.to_owned(), inode: Placed::before(&seen), over: Over::Nothing }
}

#[test]
fn a_file_of_claims_that_was_cut_short_or_replaced_is_read_from_its_beginning() {
    for is_replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let of = |host| Claims::open(folder.path(), host, 1, Some(HashSet::new())).unwrap().0;
        let (a, b) = (of("a"), of("b"));
        let names = ["/pfs/first", "/pfs/second", "/pfs/3"].map(Path::new);
        names[..2].iter().for_each(|name| a.claim(&intent(name), true).unwrap());
        assert!(b.is_elsewhere(names[1]).unwrap() && !b.is_elsewhere(names[2]).unwrap());
        let file = folder.path().join("a.claims");
        if is_replaced {
            let text = format!("{}{}", line('+', names[2]), std::fs::read_to_string(&file).unwrap());
            std::fs::write(folder.path().join("new"), text).unwrap();
            std::fs::rename(folder.path().join("new"), &file).unwrap();
        } else {
            std::fs::write(&file, "").unwrap();
            a.write(&line('+', names[2])).unwrap();
        }
        assert!(b.is_elsewhere(names[2]).unwrap(), "{is_replaced}");
        assert!(b.is_elsewhere(names[1]).unwrap(), "what was claimed still is");
    }
}

#[test]
fn a_line_that_is_damaged_is_told_and_one_that_was_cut_off_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let of = || Claims::open(folder.path(), "a", 1, None).unwrap();
    let names = ["/pfs/1", "/pfs/2"].map(Path::new);
    let claims = of().0;
    names.iter().for_each(|name| claims.claim(&intent(name), false).unwrap());
    let file = folder.path().join("a.claims");
    let text = std::fs::read_to_string(&file).unwrap();
    let second = text.find('\n').unwrap() + 1;
    std::fs::write(&file, format!("{text}+\"/pfs/cu\n={{\"na\n\0\0\n\n")).unwrap();
    assert_eq!(of().0.take_damaged(), []);
    std::fs::write(&file, text.replace("\"name\":\"/pfs/2\"", "\"name\"#\"/pfs/2\"")).unwrap();
    let (claims, intents) = of();
    assert_eq!(intents.count(), 1);
    let damaged = claims.take_damaged();
    let [trouble] = &damaged[..] else { panic!("{damaged:?}") };
    assert!(trouble.message.contains(&format!("byte {second} on is damaged")), "{trouble:?}");
    assert_eq!(claims.take_damaged(), [], "once");
}
