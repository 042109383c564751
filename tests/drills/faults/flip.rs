//! A wrong bit in what lies on a storage node.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use serde_json::{Value, json};
use tests::processes::wait_until;
use tests::site::HANGS_AFTER;

use crate::ground::Ground;

/// Files are looked for in there.
const OBJECTS: &str = "fragments/i1/objects/0";

impl Ground {
    /// Turns a bit of an object of a node that does not run, lets everybody read, and turns it back.
    #[track_caller]
    pub fn flip_bit(&mut self) {
        let n = self.any_storage();
        let folder = self.site.storage[n].folder().join(OBJECTS);
        assert!(wait_until(HANGS_AFTER, || !objects(&folder).is_empty()), "the load leaves no object");
        self.load.order("pause");
        // Whoever asks for the space in use waits for what is being removed: one of what stays is chosen.
        statvfs(&self.mounts[0]).expect("it is mounted");
        self.seal(n);
        self.site.storage[n].kill();
        let mut objects = objects(&folder);
        objects.sort();
        // All that there was may have been removed just before.
        let Some(object) = objects.get(self.random.below(objects.len().max(1) as u64) as usize) else {
            self.site.storage[n].start();
            return self.load.order("go on");
        };
        let length = fs::metadata(object).expect("the node made it").len();
        let (at, bit) = (self.random.below(length), self.random.below(8));
        turn(object, at, bit);
        self.site.storage[n].start();
        let mounts = self.mounts.clone();
        self.load.compare("probe", &mounts);
        self.site.storage[n].kill();
        turn(object, at, bit);
        self.site.storage[n].start();
        self.load.order("go on");
    }

    /// Sums what a storage node has, as it does by itself with what nobody changes for a while.
    #[track_caller]
    fn seal(&self, n: usize) {
        let node = &self.site.storage[n];
        node.call("PUT", "/v1/fragments/i1/scrub", Some(&json!({})));
        let mut status = Value::Null;
        let ended = wait_until(HANGS_AFTER, || {
            status = node.call("GET", "/v1/fragments/i1/scrub", None);
            status["running"] == false
        });
        assert!(ended && status["error"].is_null() && status["in_use"] == 0, "{status}");
        assert_eq!(status["damaged"], json!([]), "nothing was turned yet");
    }
}

fn turn(object: &Path, at: u64, bit: u64) {
    let file = File::options().read(true).write(true).open(object).expect("the node made it");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is as long as that");
    file.write_all_at(&[byte[0] ^ (1 << bit)], at).expect("the disk is ours");
}

/// Objects that are not empty: files in folders of two digits.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = folders.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
    let is_full =
        |entry: &fs::DirEntry| entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
    files.filter(is_full).map(|entry| entry.path()).collect()
}
