//! Notices from the kernel (inotify) of what happens below the drained folder, and walks through it.
//!
//! Notices may be lost: the kernel's queue overflows, a folder is filled before it is watched, there are more folders
//! than a user may watch. Each loss leads to a walk, whose result is compared with the ledger.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use disk::below::by_descriptor;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::generation::{Kind, Seen, if_there, look_in};
use crate::outside::LeftOut;
use crate::top::Top;

/// What happened; paths are below the drained folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A file was closed after writing, or got this name.
    File(PathBuf),
    /// A folder is new here: what is in it has not been watched.
    Folder(PathBuf),
    /// Notices were lost.
    Lost,
}

/// Watches one folder and all below.
pub(crate) struct Watch {
    queue: OwnedFd,
    top: Arc<Top>,
    /// What is not drained: the drainer's own folder.
    skip: PathBuf,
    /// Nor what is drained to, should it have a path here.
    out: LeftOut,
    /// Where each watch is now.
    folders: Mutex<HashMap<i32, PathBuf>>,
    /// Some folder cannot be watched.
    blind: AtomicBool,
}

impl Watch {
    /// Watches nothing yet: that comes with the first [`Watch::walk`].
    ///
    /// # Errors
    /// The user has too many such queues.
    pub(crate) fn open(top: Arc<Top>, skip: &Path, to: &Path) -> rustix::io::Result<Watch> {
        let queue = inotify::init(CreateFlags::CLOEXEC)?;
        Ok(Watch {
            queue,
            top,
            skip: skip.to_owned(),
            out: LeftOut::of(to),
            folders: Mutex::default(),
            blind: AtomicBool::new(false),
        })
    }

    /// Whether there are folders that only a walk sees.
    pub(crate) fn is_blind(&self) -> bool {
        self.blind.load(Ordering::Relaxed)
    }

    /// Whether a folder is left out of walks, and is not the drain's own.
    fn is_out(&self, path: &Path, seen: &Seen) -> bool {
        self.top.path().join(path) != self.skip && self.out.has(&self.top, path, seen)
    }

    /// Goes through the folder `below` and all in it, watches them, and hands over every file, symbolic link and
    /// folder, a folder as it was before it was read. Gives what it could not look at: there may be files in it.
    pub(crate) fn walk(&self, below: &Path, found: &mut dyn FnMut(PathBuf, &Seen)) -> Vec<(PathBuf, Errno)> {
        if let Err(errno) = self.top.is_there() {
            return vec![(below.to_owned(), errno)];
        }
        let mut unseen = Vec::new();
        let mut folders = self.unless_left_out(below);
        while let Some(folder) = folders.pop() {
            let path = self.top.path().join(&folder);
            if path == self.skip {
                continue;
            }
            // Before it is read: what comes after that is noticed.
            self.watch(&folder, &path);
            let read = self.top.folder(&folder).and_then(|held| Ok((names(&held)?, held)));
            let (names, held) = match read {
                Ok(read) => read,
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(errno) => {
                    unseen.push((folder, errno));
                    continue;
                }
            };
            for name in names {
                let (path, seen) = (folder.join(&name), if_there(look_in(held.as_fd(), &name)));
                match seen {
                    Ok(Some(seen)) if seen.kind == Kind::Folder && self.is_out(&path, &seen) => {}
                    Ok(Some(seen)) if seen.kind == Kind::Folder => {
                        found(path.clone(), &seen);
                        folders.push(path);
                    }
                    Ok(Some(seen)) if seen.kind != Kind::Other => found(path, &seen),
                    Ok(_) => {}
                    Err(errno) => unseen.push((path, errno)),
                }
            }
        }
        // A folder that went while it was walked through has no names.
        unseen.extend(self.top.is_there().err().map(|errno| (below.to_owned(), errno)));
        unseen
    }

    /// The folder, unless it is left out.
    fn unless_left_out(&self, below: &Path) -> Vec<PathBuf> {
        let is_out = |seen: Seen| self.is_out(below, &seen);
        let is_left_out = !below.as_os_str().is_empty() && self.top.glance(below).is_ok_and(is_out);
        if is_left_out { Vec::new() } else { vec![below.to_owned()] }
    }

    /// Waits for notices and hands them over, for ever.
    ///
    /// # Errors
    /// The queue broke.
    pub(crate) fn follow(&self, mut notice: impl FnMut(Notice)) -> rustix::io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        loop {
            let event = events.next()?;
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                notice(Notice::Lost);
            } else if flags.contains(ReadFlags::IGNORED) {
                self.lock().remove(&event.wd());
            } else if let Some(name) = event.file_name() {
                let folder = self.lock().get(&event.wd()).cloned();
                let Some(path) = folder.map(|folder| folder.join(OsStr::from_bytes(name.to_bytes()))) else {
                    continue;
                };
                if let Some(what) = self.meaning(flags, path) {
                    notice(what);
                }
            }
        }
    }

    fn meaning(&self, flags: ReadFlags, path: PathBuf) -> Option<Notice> {
        if flags.contains(ReadFlags::ISDIR) {
            // What is in the folder that has this path now is noticed after this.
            self.top.let_go();
            return flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO).then_some(Notice::Folder(path));
        }
        if flags.contains(ReadFlags::CREATE) {
            // A new file is noticed when it is closed; links have no close.
            let seen = self.top.glance(&path).ok()?;
            return (seen.kind == Kind::Link || seen.attr.nlink > 1).then_some(Notice::File(path));
        }
        Some(Notice::File(path))
    }

    fn watch(&self, folder: &Path, path: &Path) {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(&self.queue, path, flags) {
            // One that is watched already has the same number, and perhaps another name now.
            Ok(number) => drop(self.lock().insert(number, folder.to_owned())),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => {
                if !self.blind.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "watch {}: {errno}; what is closed there is found by walks only (raise \
                         fs.inotify.max_user_watches)",
                        path.display()
                    );
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i32, PathBuf>> {
        self.folders.lock().expect("no thread panics with the lock")
    }
}

/// The names in a folder.
fn names(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let entries = std::fs::read_dir(by_descriptor(folder)).map_err(errno)?;
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(errno)).collect()
}
