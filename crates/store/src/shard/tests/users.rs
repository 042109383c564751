//! What clients that work for users may do: as the kernel would decide, on the same tree.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use model::{FragmentIndex, Ino, SessionId};
use wire::data::credential::User;

use super::super::caller::Asked;
use super::*;

/// Who asks. Owners of files are drawn from 1 to 3, as are their groups.
const UID: u32 = 2;
const GROUPS: [u32; 2] = [2, 3];

fn user() -> User {
    User { uid: UID, groups: GROUPS.to_vec() }
}

impl Home {
    /// What the user is answered.
    fn ask_for_user(&mut self, request: Request) -> Reply {
        self.next_id += 1;
        let (user, asked) = (user(), request.clone());
        let asked = Asked { user: &user, request: &asked };
        self.shard.handle(Caller::of_user(SessionId([7; 16]), self.next_id, asked), request)
    }

    fn make(&mut self, parent: Ino, name: &str, kind: FileKind, (uid, gid, mode): (u32, u32, u32)) -> Ino {
        let (name, creator) = (name.as_bytes().to_vec(), Creator { uid, gid, umask: 0 });
        let make = Request::Make { parent, name, kind, mode, rdev: 0, target: b"there".to_vec(), creator };
        inode(self.ask(make)).unwrap()
    }
}

fn refused(reply: &Reply) -> Option<Errno> {
    match reply {
        Reply::Failed(errno) => Some(Errno::from_raw_os_error(*errno)),
        _ => None,
    }
}

/// A namespace in whose root everybody may make files.
fn shared() -> Home {
    let mut home = Home::new();
    let set = SetAttr { mode: Some(0o1777), ..SetAttr::default() };
    home.ask(Request::SetAttr { ino: ROOT, set });
    home
}

fn named(name: &str) -> Vec<u8> {
    name.as_bytes().to_vec()
}

#[test]
fn a_user_neither_opens_nor_replaces_nor_renames_what_is_anothers() {
    let mut home = shared();
    let file = home.make(ROOT, "f", FileKind::Regular, (1, 1, 0o600));
    let open = |write| Request::Open { ino: file, write };
    assert_eq!(refused(&home.ask_for_user(open(false))), Some(Errno::ACCESS));
    assert_eq!(refused(&home.ask_for_user(open(true))), Some(Errno::ACCESS));
    let unlink = Request::Unlink { parent: ROOT, name: named("f") };
    assert_eq!(refused(&home.ask_for_user(unlink)), Some(Errno::PERM), "the folder is sticky");
    let own = home.make(ROOT, "own", FileKind::Regular, (UID, 2, 0o600));
    let rename = |name: &str, new_name: &str| Request::Rename {
        parent: ROOT,
        name: named(name),
        new_parent: ROOT,
        new_name: named(new_name),
        mode: RenameMode::Replace,
    };
    assert_eq!(refused(&home.ask_for_user(rename("own", "f"))), Some(Errno::PERM));
    assert_eq!(refused(&home.ask_for_user(rename("f", "g"))), Some(Errno::PERM));
    let owner = SetAttr { uid: Some(1), ..SetAttr::default() };
    assert_eq!(refused(&home.ask_for_user(Request::SetAttr { ino: own, set: owner })), Some(Errno::PERM));
    let creator = Creator { uid: 1, gid: 2, umask: 0 };
    let forged = Request::Create { parent: ROOT, name: named("forged"), mode: 0o600, creator };
    assert_eq!(refused(&home.ask_for_user(forged)), Some(Errno::PERM));
    assert_eq!(refused(&home.ask_for_user(rename("own", "new"))), None);
}

#[test]
fn an_inode_number_alone_opens_nothing() {
    let mut home = shared();
    let closed = home.make(ROOT, "closed", FileKind::Directory, (1, 1, 0o700));
    let inside = home.make(closed, "f", FileKind::Regular, (1, 1, 0o666));
    let open = Request::Open { ino: inside, write: true };
    assert_eq!(refused(&home.ask_for_user(open.clone())), Some(Errno::ACCESS));
    assert_eq!(refused(&home.ask_for_user(Request::GetAttr { ino: inside })), Some(Errno::ACCESS));
    // Who says that he had it open is not believed.
    let claim = Request::Reclaim { opens: vec![(inside, 1, 1)] };
    assert_eq!(home.ask_for_user(claim), Reply::Gone(vec![inside]));
    assert_eq!(refused(&home.ask_for_user(open.clone())), Some(Errno::ACCESS));
    // Another name leads there, and when the first is gone as well.
    home.ask(Request::Link { ino: inside, parent: ROOT, name: named("second") });
    assert_eq!(refused(&home.ask_for_user(open.clone())), None);
    home.ask(Request::Unlink { parent: closed, name: named("f") });
    assert_eq!(refused(&home.ask_for_user(open.clone())), None);
    home.ask(Request::Link { ino: inside, parent: closed, name: named("third") });
    assert_eq!(refused(&home.ask_for_user(open)), None);
}

#[test]
fn a_file_that_its_owner_closes_to_a_user_costs_him_none_of_the_others_that_he_has_open() {
    let mut home = shared();
    let mut open = |name| {
        let ino = home.make(ROOT, name, FileKind::Regular, (1, 1, 0o644));
        assert_eq!(refused(&home.ask_for_user(Request::Open { ino, write: false })), None);
        ino
    };
    let (closed, other) = (open("closed"), open("other"));
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    home.ask(Request::SetAttr { ino: closed, set });
    let claim = || Request::Reclaim { opens: vec![(closed, 1, 0), (other, 1, 0)] };
    assert_eq!(home.ask_for_user(claim()), Reply::Done, "he had opened it before");
    home.shard = Home::open(home.folder.path());
    assert_eq!(home.ask_for_user(claim()), Reply::Gone(vec![closed]), "nobody knows that any more");
    assert_eq!(refused(&home.ask_for_user(Request::GetAttr { ino: other })), None);
}

#[test]
fn what_only_nodes_ask_is_refused_to_users() {
    let mut home = shared();
    for request in [
        Request::ListMeant { fragment: FragmentIndex(0), after: Ino(0) },
        Request::Resize { ino: Ino(2), size: 0 },
    ] {
        assert_eq!(refused(&home.ask_for_user(request)), Some(Errno::PERM));
    }
}

/// A tree of two folders, with a file, a folder and a link in the inner one; each with an owner, a group and a mode.
#[derive(Clone, Debug)]
struct Grown {
    outer: (u32, u32, u32),
    inner: (u32, u32, u32),
    file: (u32, u32, u32),
    folder: (u32, u32, u32),
}

fn grown() -> impl Strategy<Value = Grown> {
    // The owner may always do everything: that is where we differ from the kernel, as the module says.
    let one = || (1u32..4, 1u32..4, 0u32..0o100, any::<bool>());
    let one = move || one().prop_map(|(u, g, m, t)| (u, g, 0o700 | m | if t { 0o1000 } else { 0 }));
    (one(), one(), one(), one()).prop_map(|(outer, inner, file, folder)| Grown {
        outer,
        inner,
        file: (file.0, file.1, file.2 & 0o777),
        folder,
    })
}

/// The same tree on the disk; where it begins.
fn on_disk(grown: &Grown) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (outer, inner) = (folder.path().join("o"), folder.path().join("o/i"));
    fs::create_dir_all(inner.join("d")).unwrap();
    File::create(inner.join("f")).unwrap();
    symlink("there", inner.join("l")).unwrap();
    let set = |path: PathBuf, (uid, gid, mode): (u32, u32, u32)| {
        chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(inner.join("f"), grown.file);
    set(inner.join("d"), grown.folder);
    set(inner, grown.inner);
    set(outer.clone(), grown.outer);
    (folder, outer)
}

/// What somebody tries, with whether the kernel lets the user do it.
fn tries(root: &Path) -> Vec<(&'static str, bool)> {
    let at = |name: &str| root.join("i").join(name);
    let open =
        |path: PathBuf, write: bool| fs::OpenOptions::new().read(!write).write(write).open(path).is_ok();
    vec![
        ("list", fs::read_dir(root.join("i")).is_ok() && fs::metadata(at("f")).is_ok()),
        ("stat", fs::metadata(at("f")).is_ok()),
        ("read link", fs::read_link(at("l")).is_ok()),
        ("read", open(at("f"), false)),
        ("write", open(at("f"), true)),
        ("chmod", fs::set_permissions(at("f"), fs::Permissions::from_mode(0o700)).is_ok()),
        ("link", fs::hard_link(at("f"), at("f2")).is_ok()),
        ("create", File::create_new(at("new")).is_ok()),
        ("rename", fs::rename(at("f"), at("g")).is_ok()),
        ("move a folder", fs::rename(at("d"), root.join("d")).is_ok()),
        ("unlink", fs::remove_file(at("l")).is_ok()),
    ]
}

/// The same asked of a shard.
fn asks(grown: &Grown) -> Vec<(&'static str, bool)> {
    let mut home = shared();
    let outer = home.make(ROOT, "o", FileKind::Directory, grown.outer);
    let inner = home.make(outer, "i", FileKind::Directory, grown.inner);
    let file = home.make(inner, "f", FileKind::Regular, grown.file);
    home.make(inner, "d", FileKind::Directory, grown.folder);
    let link = home.make(inner, "l", FileKind::Symlink, (3, 3, 0o777));
    let mut may = |request: Request| refused(&home.ask_for_user(request)).is_none();
    let creator = Creator { uid: UID, gid: GROUPS[0], umask: 0 };
    let rename = |from: (Ino, &str), to: (Ino, &str)| Request::Rename {
        parent: from.0,
        name: named(from.1),
        new_parent: to.0,
        new_name: named(to.1),
        mode: RenameMode::Replace,
    };
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    vec![
        ("list", may(Request::ReadDir { ino: inner, cookie: 0 })),
        ("stat", may(Request::GetAttr { ino: file })),
        ("read link", may(Request::ReadLink { ino: link })),
        ("read", may(Request::Open { ino: file, write: false })),
        ("write", may(Request::Open { ino: file, write: true })),
        ("chmod", may(Request::SetAttr { ino: file, set: mode })),
        ("link", may(Request::Link { ino: file, parent: inner, name: named("f2") })),
        ("create", may(Request::Create { parent: inner, name: named("new"), mode: 0o600, creator })),
        ("rename", may(rename((inner, "f"), (inner, "g")))),
        ("move a folder", may(rename((inner, "d"), (outer, "d")))),
        ("unlink", may(Request::Unlink { parent: inner, name: named("l") })),
    ]
}

/// Runs `work` in a thread with the user's rights.
fn as_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::process::{Gid, Uid};
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, groups) = (Uid::from_raw(UID), GROUPS.map(Gid::from_raw));
            rustix::thread::set_thread_groups(&groups).unwrap();
            rustix::thread::set_thread_res_gid(groups[0], groups[0], groups[0]).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Only root can become another user, and give files to others.
    #[test]
    fn users_may_do_exactly_what_the_kernel_lets_them_do(grown in grown()) {
        prop_assume!(rustix::process::geteuid().is_root());
        let (_folder, root) = on_disk(&grown);
        let kernel = as_user(|| tries(&root));
        prop_assert_eq!(asks(&grown), kernel);
    }
}
