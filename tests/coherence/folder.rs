//! One test's folder, seen from each node, and what several nodes do in it at once.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use crate::peer::Peer;
use crate::site::{NODES, Site};

/// A folder of the shared buffer.
pub struct Folder<'a> {
    /// The cluster.
    pub site: &'a Site,
    mountpoint: &'a Path,
    name: String,
}

impl<'a> Folder<'a> {
    /// The folder `name` at the root of the buffer at `mountpoint`.
    pub fn new(site: &'a Site, mountpoint: &'a Path, name: String) -> Folder<'a> {
        Folder { site, mountpoint, name }
    }

    /// A file in it through the mount of `node`, for this process; an empty name is the folder.
    pub fn at(&self, node: usize, file: &str) -> PathBuf {
        self.site.seen(node, self.mountpoint).join(&self.name).join(file)
    }

    /// The same file in every node, the first first.
    pub fn everywhere(&self, file: &str) -> Vec<PathBuf> {
        (0..NODES).map(|node| self.at(node, file)).collect()
    }

    /// A file in it, for processes on the nodes.
    pub fn inside(&self, file: &str) -> PathBuf {
        self.mountpoint.join(&self.name).join(file)
    }

    /// A Python process on `node`.
    pub fn peer(&self, node: usize, file: &str) -> Peer {
        Peer::start(self.site, node, &self.inside(file))
    }
}

/// The file, open for reading and writing; made where it is not there.
#[track_caller]
pub fn open_or_make(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).open(path).expect("it can be opened")
}

/// Does `action` on the nodes 0 to `count` - 1 at the same moment; what each gave.
pub fn at_once<T: Send>(count: usize, action: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(count);
    let run = |node| {
        start.wait();
        action(node)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..count)
            .map(|node| {
                scope.spawn({
                    let run = &run;
                    move || run(node)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
