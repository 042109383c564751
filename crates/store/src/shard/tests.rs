//! The shard against itself: whatever clients do, the log gives the same tree back.

mod again;
mod hanging;
mod meant;
mod upkeep;
mod users;
mod weighed;

use model::SessionId;
use proptest::prelude::*;
use wire::data::{Creator, ROOT, SetAttr, Time, message::ClosedHandle, message::XattrMode};

use super::fixture::{OWNER, Parts};
use super::*;

const ME: Creator = Creator { uid: OWNER.uid, gid: OWNER.gid, umask: 0 };
const SESSION: SessionId = SessionId([3; 16]);

struct Home {
    folder: tempfile::TempDir,
    shard: Arc<Shard>,
    next_id: u64,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let shard = Home::open(folder.path());
        Home { folder, shard, next_id: 1 }
    }

    /// Opens the shard in `folder`, as after `kill -9`: nothing of the former life is asked.
    fn open(folder: &Path) -> Arc<Shard> {
        let Parts { namespace, objects, peers } = Parts::new(folder, 1);
        Shard::open(folder, &namespace, Expect::New, objects, peers).unwrap()
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.next_id += 1;
        self.shard.handle(Caller::new(SESSION, self.next_id), request)
    }
}

fn inode(reply: Reply) -> Option<Ino> {
    match reply {
        Reply::Inode(inode) | Reply::Made { inode, .. } => Some(inode.attr.ino),
        _ => None,
    }
}

/// One step of a client; directories and names are drawn from a handful, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Create(usize, u8),
    Mkdir(usize, u8),
    Link(usize, u8, usize, u8),
    Unlink(usize, u8),
    Rmdir(usize, u8),
    Rename(usize, u8, usize, u8, RenameMode),
    Chmod(usize, u8, u32),
    Xattr(usize, u8, Vec<u8>),
    /// An access list, or a default one, with these bits.
    Acl(usize, u8, &'static [u8], [u8; 5]),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0usize..6, b'a'..b'f');
    let list = prop_oneof![Just(acl::ACCESS), Just(acl::DEFAULT)];
    let mode =
        prop_oneof![Just(RenameMode::Replace), Just(RenameMode::NoReplace), Just(RenameMode::Exchange)];
    prop::collection::vec(
        prop_oneof![
            place().prop_map(|(d, n)| Step::Create(d, n)),
            place().prop_map(|(d, n)| Step::Mkdir(d, n)),
            (place(), place()).prop_map(|((d, n), (e, m))| Step::Link(d, n, e, m)),
            place().prop_map(|(d, n)| Step::Unlink(d, n)),
            place().prop_map(|(d, n)| Step::Rmdir(d, n)),
            (place(), place(), mode).prop_map(|((d, n), (e, m), mode)| Step::Rename(d, n, e, m, mode)),
            (place(), 0u32..0o10000).prop_map(|((d, n), mode)| Step::Chmod(d, n, mode)),
            (place(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|((d, n), v)| Step::Xattr(d, n, v)),
            (place(), list, prop::array::uniform5(0u8..8)).prop_map(|((d, n), l, b)| Step::Acl(d, n, l, b)),
        ],
        0..60,
    )
}

fn walk(home: &mut Home, steps: Vec<Step>) {
    let mut folders = vec![ROOT];
    for step in steps {
        let folder = |n: usize| folders[n % folders.len()];
        let name = |n: u8| vec![n];
        let find = |home: &mut Home, d, n| inode(home.ask(Request::Lookup { parent: d, name: vec![n] }));
        match step {
            Step::Create(d, n) => {
                let made =
                    home.ask(Request::Create { parent: folder(d), name: name(n), mode: 0o644, creator: ME });
                if let Some(ino) = inode(made) {
                    home.ask(Request::Close {
                        handles: vec![ClosedHandle { ino, write: true, written: None }],
                    });
                }
            }
            Step::Mkdir(d, n) => {
                let (parent, kind, target) = (folder(d), FileKind::Directory, Vec::new());
                let make =
                    Request::Make { parent, name: name(n), kind, mode: 0o755, rdev: 0, target, creator: ME };
                let made = home.ask(make);
                folders.extend(inode(made));
            }
            Step::Link(d, n, e, m) => {
                if let Some(ino) = find(home, folder(d), n) {
                    home.ask(Request::Link { ino, parent: folder(e), name: name(m) });
                }
            }
            Step::Unlink(d, n) => drop(home.ask(Request::Unlink { parent: folder(d), name: name(n) })),
            Step::Rmdir(d, n) => drop(home.ask(Request::Rmdir { parent: folder(d), name: name(n) })),
            Step::Rename(d, n, e, m, mode) => {
                let (parent, new_parent) = (folder(d), folder(e));
                home.ask(Request::Rename { parent, name: name(n), new_parent, new_name: name(m), mode });
            }
            Step::Chmod(d, n, mode) => {
                if let Some(ino) = find(home, folder(d), n) {
                    let mtime = Some(Time { seconds: 5, nanos: 6 });
                    home.ask(Request::SetAttr {
                        ino,
                        set: SetAttr { mode: Some(mode), mtime, ..SetAttr::default() },
                    });
                }
            }
            Step::Acl(d, n, list, bits) => {
                if let Some(ino) = find(home, folder(d), n) {
                    let entry = |(tag, bits): (u8, u8)| [tag, 0, bits, 0, 7, 0, 0, 0];
                    let entries = [1, 2, 4, 16, 32].into_iter().zip(bits).flat_map(entry);
                    let value = [2, 0, 0, 0].into_iter().chain(entries).collect();
                    home.ask(Request::SetXattr { ino, name: list.to_vec(), value, mode: XattrMode::Any });
                }
            }
            Step::Xattr(d, n, value) => {
                if let Some(ino) = find(home, folder(d), n) {
                    let name = b"user.x".to_vec();
                    home.ask(Request::SetXattr { ino, name, value, mode: XattrMode::Any });
                }
            }
        }
    }
}

/// The whole tree as names, attributes and extended attributes, by path; and that every directory's link count and
/// parent are right.
fn picture(shard: &Shard) -> Vec<(Vec<u8>, wire::data::Attr, Option<super::tree::Xattrs>)> {
    let state = shard.lock();
    let (mut found, mut waiting) = (Vec::new(), vec![(Vec::new(), ROOT)]);
    while let Some((path, ino)) = waiting.pop() {
        let inode = state.tree.get(ino).expect("an entry names an inode");
        if let Some(entries) = inode.directory() {
            let children: Vec<(Vec<u8>, Ino)> =
                entries.after(0).map(|(_, name, ino)| ([&path[..], b"/", name].concat(), ino)).collect();
            let folders =
                children.iter().filter(|(_, ino)| state.tree.get(*ino).unwrap().directory().is_some());
            assert_eq!(
                inode.nlink as usize,
                2 + folders.clone().count(),
                "links of {:?}",
                String::from_utf8_lossy(&path)
            );
            for (_, child) in folders {
                assert_eq!(state.tree.get(*child).unwrap().directory().unwrap().parent, ino);
            }
            waiting.extend(children);
        }
        found.push((path, inode.attr(ino), inode.xattrs.clone()));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_shard_that_is_opened_again_has_the_same_tree(steps in steps()) {
        let mut home = Home::new();
        walk(&mut home, steps);
        let before = picture(&home.shard);
        let again = Home::open(home.folder.path());
        prop_assert_eq!(&before, &picture(&again));
        again.replace_log().unwrap();
        prop_assert_eq!(&before, &picture(&Home::open(home.folder.path())));
    }
}

#[test]
fn a_request_that_is_sent_again_after_a_crash_is_done_once() {
    let home = Home::new();
    let caller = Caller::new(SESSION, 77);
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let first = inode(home.shard.handle(caller, create.clone()));
    assert!(first.is_some());
    let again = Home::open(home.folder.path());
    assert_eq!(inode(again.handle(caller, create.clone())), first);
    again.replace_log().unwrap();
    assert_eq!(inode(Home::open(home.folder.path()).handle(caller, create.clone())), first);
    let other = Caller::new(SESSION, 78);
    assert_eq!(again.handle(other, create), Reply::Failed(Errno::EXIST.raw_os_error()));
}

fn lock(ino: Ino, kind: wire::data::LockKind) -> Request {
    let lock = wire::data::FileLock { kind, start: 0, end: 9, pid: 1, whole_file: false };
    Request::SetLock { ino, owner: 1, lock, wait_ms: 0 }
}

const FAILED: fn(Errno) -> Reply = |errno| Reply::Failed(errno.raw_os_error());

#[test]
fn what_is_held_over_a_restart_is_nobody_elses_until_the_holder_has_spoken() {
    use wire::data::LockKind::Exclusive;
    let mut home = Home::new();
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let (ino, other) = (inode(home.ask(create)).unwrap(), |id| Caller::new(SessionId([4; 16]), id));
    assert_eq!(home.ask(lock(ino, Exclusive)), Reply::Done);
    let again = Home::open(home.folder.path());
    assert_eq!(again.handle(other(1), lock(ino, Exclusive)), FAILED(Errno::INPROGRESS));
    let Request::SetLock { lock: held, .. } = lock(ino, Exclusive) else { panic!("made above") };
    let test = || again.handle(other(5), Request::TestLock { ino, owner: 1, lock: held });
    assert_eq!(test(), FAILED(Errno::INPROGRESS), "it may be locked, and is said not to be");
    let removed = again.handle(other(2), Request::Unlink { parent: ROOT, name: b"f".to_vec() });
    assert!(matches!(removed, Reply::Removed { .. }), "{removed:?}");
    assert_eq!(again.lock().tree.orphans().count(), 1);
    let me = Caller::new(SESSION, 0);
    assert_eq!(again.handle(me, Request::Reclaim { opens: vec![(ino, 0, 1)] }), Reply::Done);
    assert_eq!(again.handle(me, Request::ReclaimLocks { locks: vec![(ino, 1, held)] }), Reply::Done);
    assert_eq!(test(), Reply::Lock(Some(held)));
    assert_eq!(again.handle(other(3), lock(ino, Exclusive)), FAILED(Errno::AGAIN));
    assert_eq!(again.handle(Caller { id: 99, ..me }, Request::Goodbye), Reply::Done);
    let [_, _] = [Request::AwaitDestroyed, Request::Goodbye].map(|last| again.handle(other(4), last));
    assert_eq!(again.lock().tree.orphans().count(), 0);
    // Who said goodbye is not waited for.
    let third = Home::open(home.folder.path());
    let caller = Caller::new(SessionId([5; 16]), 1);
    let make = Request::Create { parent: ROOT, name: b"g".to_vec(), mode: 0o600, creator: ME };
    let ino = inode(third.handle(caller, make)).unwrap();
    assert_eq!(third.handle(Caller { id: 2, ..caller }, lock(ino, Exclusive)), Reply::Done);
}

#[test]
fn a_place_that_an_append_was_given_is_not_given_again_after_a_restart() {
    let mut home = Home::new();
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let ino = inode(home.ask(create)).unwrap();
    let reserve = Request::ReserveEnd { ino, size: 0, len: 10 };
    assert_eq!(home.ask(reserve.clone()), Reply::Offset(0));
    let (asked, next) = (Caller::new(SESSION, home.next_id), home.next_id + 1);
    let again = Home::open(home.folder.path());
    assert_eq!(again.handle(asked, reserve.clone()), Reply::Offset(0), "the same request");
    assert_eq!(again.handle(Caller { id: next, ..asked }, reserve.clone()), Reply::Offset(10));
    again.replace_log().unwrap();
    let third = Home::open(home.folder.path());
    assert_eq!(third.handle(asked, reserve.clone()), Reply::Offset(0));
    assert_eq!(third.handle(Caller { id: next + 1, ..asked }, reserve), Reply::Offset(20));
}

#[test]
fn a_close_after_a_restart_gives_no_place_away_that_another_client_is_writing_to() {
    let home = Home::new();
    let other = SessionId([7; 16]);
    let open = |session, id, ino| {
        home.shard.handle(Caller::new(session, id), Request::Open { ino, write: true });
    };
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let ino = inode(home.shard.handle(Caller::new(SESSION, 1), create)).unwrap();
    open(SESSION, 2, ino);
    open(other, 3, ino);
    let reserve = Request::ReserveEnd { ino, size: 0, len: 10 };
    assert_eq!(home.shard.handle(Caller::new(other, 4), reserve.clone()), Reply::Offset(0));
    // The other is not back yet, and what it appends not written.
    let again = Home::open(home.folder.path());
    again.handle(Caller::new(SESSION, 5), Request::Reclaim { opens: vec![(ino, 0, 1)] });
    again.handle(Caller::new(SESSION, 6), Request::ReclaimLocks { locks: Vec::new() });
    let handles = vec![ClosedHandle { ino, write: true, written: None }];
    again.handle(Caller::new(SESSION, 7), Request::Close { handles });
    assert_eq!(again.handle(Caller::new(SESSION, 8), reserve), Reply::Offset(10));
}

#[test]
fn a_time_that_was_set_outlives_a_restart_that_writes_the_log_anew_while_the_file_is_open() {
    let mut home = Home::new();
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let ino = inode(home.ask(create)).unwrap();
    let set = SetAttr { mtime: Some(Time { seconds: 5, nanos: 6 }), ..SetAttr::default() };
    // As with several fragments: somebody writes, and only they know the size.
    home.shard.lock().record(None, Record::Opened { ino }).unwrap();
    home.ask(Request::SetAttr { ino, set });
    home.shard.replace_log().unwrap();
    let again = Home::open(home.folder.path());
    again.handle(Caller::new(SESSION, 0), Request::ReclaimLocks { locks: Vec::new() });
    let settle = Request::Settle { ino, size: 7, mtime: Time { seconds: 900, nanos: 0 }, epoch: 1 };
    again.handle(Caller::new(SESSION, 0), settle);
    let state = again.lock();
    let inode = state.tree.get(ino).unwrap();
    assert_eq!((inode.size, inode.mtime), (7, Time { seconds: 5, nanos: 6 }));
}

#[test]
fn pages_of_a_directory_go_on_while_entries_come_and_go() {
    let mut home = Home::new();
    let create =
        |name: String| Request::Create { parent: ROOT, name: name.into_bytes(), mode: 0o600, creator: ME };
    for n in 0..1000 {
        home.ask(create(format!("file-{n:04}")));
    }
    let (mut seen, mut cookie) = (Vec::new(), 0);
    loop {
        let Reply::Entries { entries, .. } = home.ask(Request::ReadDir { ino: ROOT, cookie }) else {
            panic!("no page")
        };
        let Some(last) = entries.last() else { break };
        cookie = last.cookie;
        seen.extend(entries.iter().map(|entry| entry.name.clone()));
        // What was listed is removed, as `rm -r` does, and something new appears.
        for entry in entries {
            home.ask(Request::Unlink { parent: ROOT, name: entry.name });
        }
        if seen.len() < 1500 {
            home.ask(create(format!("new-{}", seen.len())));
        }
    }
    let originals = seen.iter().filter(|name| name.starts_with(b"file-")).count();
    assert_eq!(originals, 1000);
}

#[test]
fn a_file_that_lost_its_last_name_is_opened_by_nobody_who_comes_later() {
    let mut home = Home::new();
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let ino = inode(home.ask(create)).unwrap();
    home.ask(Request::Unlink { parent: ROOT, name: b"f".to_vec() });
    assert_eq!(
        inode(home.ask(Request::Open { ino, write: true })),
        Some(ino),
        "while it is open, it lives on"
    );
    let handle = ClosedHandle { ino, write: true, written: None };
    home.ask(Request::Close { handles: vec![handle, handle] });
    let stale = Reply::Failed(Errno::STALE.raw_os_error());
    assert_eq!(home.ask(Request::Open { ino, write: true }), stale);
}

/// A file whose size the shard of two fragments has, in a folder of its own.
fn settled_file(folder: &Path) -> (Arc<Shard>, Ino) {
    let shard = home_of_two(folder);
    let caller = Caller::new(SESSION, 1);
    let create = Request::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o600, creator: ME };
    let ino = inode(shard.handle(caller, create)).unwrap();
    let written = wire::data::message::Written { end: 7, mtime: now(), epoch: 0, times: 0 };
    let handles = vec![ClosedHandle { ino, write: true, written: Some(written) }];
    assert_eq!(shard.handle(Caller { id: 2, ..caller }, Request::Close { handles }), Reply::Measure(vec![]));
    assert!(shard.lock().tree.is_settled(ino));
    (shard, ino)
}

fn home_of_two(folder: &Path) -> Arc<Shard> {
    let Parts { namespace, objects, peers } = Parts::new(folder, 2);
    Shard::open(folder, &namespace, Expect::New, objects, peers).unwrap()
}

#[test]
fn sizes_are_what_the_fragments_have_after_a_power_loss_and_not_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (shard, ino) = settled_file(folder.path());
    shard.replace_log().unwrap();
    let killed = home_of_two(folder.path());
    assert!(killed.lock().tree.is_settled(ino));
    // As after another boot: the fragment draws another verifier.
    std::fs::remove_file(folder.path().join("verifier.json")).unwrap();
    let again = home_of_two(folder.path());
    let reply = again.handle(Caller::new(SESSION, 3), Request::GetAttr { ino });
    assert!(matches!(reply, Reply::Inode(InodeReply { live: true, .. })), "{reply:?}");
    again.replace_log().unwrap();
    assert!(!home_of_two(folder.path()).lock().tree.is_settled(ino), "once is for good");
}

#[test]
fn the_size_of_a_file_that_was_cut_off_in_part_is_what_the_fragments_have() {
    let folder = tempfile::tempdir().unwrap();
    let (shard, ino) = settled_file(folder.path());
    let set = SetAttr { size: Some(1 << 20), ..SetAttr::default() };
    // There is no other node.
    let reply = shard.handle(Caller::new(SESSION, 3), Request::SetAttr { ino, set });
    assert!(matches!(reply, Reply::Failed(_)), "{reply:?}");
    assert!(!shard.lock().tree.is_settled(ino));
}
