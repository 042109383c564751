//! With the real kernel: a file system of one file, mounted, served, interrupted, and taken over by another process.
//!
//! Needs root and `/dev/fuse`; where there are none, each test says so and does nothing.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test that cannot go on fails"
)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use fuse::abi::{Attr, AttrOut, EntryOut, OpenOut, RELEASE_FLOCK_UNLOCK, capability, open_flag};
use fuse::device::Device;
use fuse::mount::{Options, mount, unmount};
use fuse::reply::Reply;
use fuse::request::{Operation, Request};
use fuse::session::{Handler, Negotiated, Session, Wanted, negotiate};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

const FILE: u64 = 2;
const SIZE_MAX: usize = 1 << 20;

const WANTED: Wanted = Wanted {
    capabilities: capability::POSIX_LOCKS
        | capability::FLOCK_LOCKS
        | capability::BIG_WRITES
        | capability::MAX_PAGES
        | capability::HAS_RESEND,
    max_write: 1 << 20,
    max_readahead: 1 << 20,
};

/// A folder with the one file `f`.
#[derive(Clone, Default)]
struct OneFile(Arc<State>);

#[derive(Default)]
struct State {
    bytes: Mutex<Vec<u8>>,
    lock: Mutex<Lock>,
    changed: Condvar,
    /// Reads are never answered; one line is printed for each.
    mute: bool,
}

#[derive(Default)]
struct Lock {
    owner: Option<u64>,
    waiting: usize,
}

impl OneFile {
    fn attr(&self, ino: u64) -> Attr {
        let (mode, size) = match ino {
            FILE => (0o100_666, self.0.bytes.lock().unwrap().len() as u64),
            _ => (0o040_777, 0),
        };
        Attr { ino, mode, size, nlink: 1, ..Attr::default() }
    }

    fn read(&self, offset: u64, size: u32) -> Vec<u8> {
        let bytes = self.0.bytes.lock().unwrap();
        let start = usize::try_from(offset).unwrap().min(bytes.len());
        bytes[start..bytes.len().min(start + size as usize)].to_vec()
    }

    fn write(&self, offset: u64, new: &[u8]) -> Result<(), Errno> {
        let start = usize::try_from(offset).unwrap();
        let end = Some(start + new.len()).filter(|end| *end <= SIZE_MAX).ok_or(Errno::FBIG)?;
        let mut bytes = self.0.bytes.lock().unwrap();
        let len = bytes.len().max(end);
        bytes.resize(len, 0);
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn try_lock(&self, owner: u64) -> bool {
        let mut lock = self.0.lock.lock().unwrap();
        let free = lock.owner.is_none_or(|holder| holder == owner);
        if free {
            lock.owner = Some(owner);
        }
        free
    }

    fn unlock(&self, owner: u64) {
        let mut lock = self.0.lock.lock().unwrap();
        lock.owner.take_if(|holder| *holder == owner);
        self.0.changed.notify_all();
    }

    fn wait_lock(&self, owner: u64, cancelled: impl Fn() -> bool) -> Result<(), Errno> {
        let mut lock = self.0.lock.lock().unwrap();
        lock.waiting += 1;
        self.0.changed.notify_all();
        let result = loop {
            if lock.owner.is_none() {
                lock.owner = Some(owner);
                break Ok(());
            }
            if cancelled() {
                break Err(Errno::INTR);
            }
            lock = self.0.changed.wait_timeout(lock, std::time::Duration::from_millis(5)).unwrap().0;
        };
        lock.waiting -= 1;
        self.0.changed.notify_all();
        result
    }

    fn until_waiting(&self, count: usize) {
        let lock = self.0.lock.lock().unwrap();
        drop(self.0.changed.wait_while(lock, |lock| lock.waiting != count).unwrap());
    }
}

impl Handler for OneFile {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Lookup { name: b"f" } => {
                reply.entry(&EntryOut { nodeid: FILE, attr: self.attr(FILE), ..EntryOut::default() });
            }
            Operation::Lookup { .. } => reply.error(Errno::NOENT),
            Operation::GetAttr | Operation::SetAttr(_) => {
                reply.attr(&AttrOut { attr: self.attr(request.ino()), ..AttrOut::default() });
            }
            Operation::Open(_) => {
                reply.opened(&OpenOut { open_flags: open_flag::DIRECT_IO, ..OpenOut::default() });
            }
            Operation::Read(_) if self.0.mute => {
                println!("asked to read");
                std::mem::forget(reply);
            }
            Operation::Read(read) => reply.bytes(&self.read(read.offset, read.size)),
            Operation::Write { arguments, bytes } => match self.write(arguments.offset, bytes) {
                Ok(()) => reply.written(arguments.size),
                Err(errno) => reply.error(errno),
            },
            Operation::SetLock(lock) if lock.lock.kind == 2 => {
                self.unlock(lock.owner);
                reply.done();
            }
            Operation::SetLock(lock) | Operation::WaitLock(lock) if self.try_lock(lock.owner) => reply.done(),
            Operation::WaitLock(lock) => {
                let (this, cancel) = (self.clone(), request.cancellable());
                std::thread::spawn(move || match this.wait_lock(lock.owner, || cancel.is_cancelled()) {
                    Ok(()) => reply.done(),
                    Err(errno) => reply.error(errno),
                });
            }
            Operation::SetLock(_) => reply.error(Errno::AGAIN),
            Operation::Release(release) => {
                if release.release_flags & RELEASE_FLOCK_UNLOCK != 0 {
                    self.unlock(release.lock_owner);
                }
                reply.done();
            }
            Operation::Flush(_) => reply.done(),
            _ => reply.error(Errno::NOSYS),
        }
    }
}

/// A mount that is taken away at the end.
struct Mounted {
    folder: tempfile::TempDir,
    device: Device,
    negotiated: Negotiated,
}

impl Mounted {
    /// Mounted and agreed upon, but not served yet. `None` where that cannot be tested.
    fn new() -> Option<Mounted> {
        if !rustix::process::geteuid().is_root() || OpenOptions::new().write(true).open("/dev/fuse").is_err()
        {
            eprintln!("skipped: needs root and /dev/fuse");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let options = Options { name: "test", kind: "test", allow_other: true, max_read: 1 << 20 };
        let device = mount(folder.path(), &options).unwrap();
        let negotiated = negotiate(&device, &WANTED).unwrap();
        Some(Mounted { folder, device, negotiated })
    }

    /// The same, served by this process.
    fn served(files: &OneFile) -> Option<Mounted> {
        let mounted = Mounted::new()?;
        let session = Session::serve(&mounted.device, &mounted.negotiated, files.clone(), 2).unwrap();
        std::thread::spawn(move || session.join());
        Some(mounted)
    }

    fn file(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.folder.path().join("f")).unwrap()
    }

    /// Another process that serves the mount, as `role` says.
    fn serve_elsewhere(&self, role: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_other_process", "--nocapture"])
            .env("SERVE", role)
            .stdin(self.device.as_fd().try_clone_to_owned().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(self.folder.path()).unwrap();
    }
}

/// Not a test: what [`Mounted::serve_elsewhere`] starts. The device is its standard input.
#[test]
fn the_other_process() {
    let Ok(role) = std::env::var("SERVE") else { return };
    let device: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let device = Device::from(device);
    let negotiated = Negotiated { minor: 45, capabilities: WANTED.capabilities, max_write: WANTED.max_write };
    let bytes = Mutex::new(b"answered by the successor".to_vec());
    let files = OneFile(Arc::new(State { bytes, mute: role == "mute", ..State::default() }));
    let session = if role == "mute" {
        Session::serve(&device, &negotiated, files, 2)
    } else {
        Session::resume(&device, &negotiated, files, 2)
    };
    session.unwrap().join().unwrap();
}

/// A program that takes a `flock` on the file, tells the errno if it does not get it, and ignores SIGUSR1 but for
/// being interrupted by it.
fn locker(folder: &Path) -> Child {
    let script =
        r#"$SIG{USR1} = sub {}; open(my $f, "+<", $ARGV[0]) or die; print flock($f, 2) ? "locked" : $!+0;"#;
    Command::new("perl").args(["-e", script]).arg(folder.join("f")).stdout(Stdio::piped()).spawn().unwrap()
}

fn output(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_was_written_is_read_back() {
    let Some(mounted) = Mounted::served(&OneFile::default()) else { return };
    let pattern: Vec<u8> = (0..SIZE_MAX).map(|n| (n % 251) as u8).collect();
    let file = mounted.file();
    file.write_all_at(&pattern, 0).unwrap();
    let mut back = vec![0; SIZE_MAX];
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back == pattern);
    assert_eq!(file.metadata().unwrap().len(), SIZE_MAX as u64);
    let beyond = file.write_at(b"x", SIZE_MAX as u64).unwrap_err();
    assert_eq!(beyond.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
}

#[test]
fn a_signal_interrupts_a_wait_for_a_lock_with_eintr() {
    let files = OneFile::default();
    let Some(mounted) = Mounted::served(&files) else { return };
    let file = mounted.file();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let mut waits = locker(mounted.folder.path());
    files.until_waiting(1);
    kill_process(Pid::from_child(&waits), Signal::USR1).unwrap();
    assert_eq!(output(&mut waits), Errno::INTR.raw_os_error().to_string());
    waits.wait().unwrap();
    files.until_waiting(0);
    drop(file);
    let mut gets_it = locker(mounted.folder.path());
    assert_eq!(output(&mut gets_it), "locked");
    gets_it.wait().unwrap();
}

#[test]
fn sigkill_ends_a_process_that_waits_for_a_lock() {
    let files = OneFile::default();
    let Some(mounted) = Mounted::served(&files) else { return };
    let file = mounted.file();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let mut waits = locker(mounted.folder.path());
    files.until_waiting(1);
    waits.kill().unwrap();
    waits.wait().unwrap();
    files.until_waiting(0);
}

#[test]
fn a_successor_answers_what_a_process_died_over() {
    let Some(mounted) = Mounted::new() else { return };
    if !mounted.negotiated.has(capability::HAS_RESEND) {
        eprintln!("skipped: this kernel cannot ask again");
        return;
    }
    let mut first = mounted.serve_elsewhere("mute");
    // Not this process: it must not hold a file that nobody serves while it starts another (closing takes a request).
    let mut reads =
        Command::new("cat").arg(mounted.folder.path().join("f")).stdout(Stdio::piped()).spawn().unwrap();
    let mut heard = BufReader::new(first.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(heard.any(|line| line.ends_with("asked to read")));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(reads.try_wait().unwrap().is_none(), "its request is kept for the successor");
    let mut second = mounted.serve_elsewhere("answer");
    assert_eq!(output(&mut reads), "answered by the successor");
    assert!(reads.wait().unwrap().success());
    drop(mounted);
    assert!(second.wait().unwrap().success());
}

#[test]
fn a_device_sent_to_another_holder_is_the_same_mount() {
    let Some(mounted) = Mounted::served(&OneFile::default()) else { return };
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    mounted.device.send(&ours).unwrap();
    let held = Device::receive(&theirs).unwrap();
    assert!(held.is_connected());
    drop(mounted);
    drop(ours);
    assert!(Device::receive(&theirs).is_err(), "nothing more was sent");
}
