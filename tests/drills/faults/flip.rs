//! A wrong bit in what lies on a storage node.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ground::Ground;

/// Files are looked for in there.
const OBJECTS: &str = "fragments/i1/namespaces/0";

impl Ground {
    /// Turns a bit of an object of a node that does not run, lets everybody read, and turns it back.
    #[track_caller]
    pub fn flip_bit(&mut self) {
        self.load.order("pause");
        let n = self.any_storage();
        self.site.storage[n].kill();
        let mut objects = Vec::new();
        find_objects(&self.site.storage[n].folder().join(OBJECTS), &mut objects);
        objects.sort();
        let Some(object) = self.any_of(&objects) else {
            self.site.storage[n].start();
            return;
        };
        let length = fs::metadata(&object).expect("the node made it").len();
        let (at, bit) = (self.random.below(length), self.random.below(8));
        turn(&object, at, bit);
        self.site.storage[n].start();
        let mounts = self.mounts.clone();
        self.load.compare("probe", &mounts);
        self.load.order("pause");
        self.site.storage[n].kill();
        turn(&object, at, bit);
        self.site.storage[n].start();
    }

    fn any_of(&mut self, paths: &[PathBuf]) -> Option<PathBuf> {
        let count = paths.len() as u64;
        if count == 0 { None } else { Some(paths[self.random.below(count) as usize].clone()) }
    }
}

fn turn(object: &Path, at: u64, bit: u64) {
    let file = File::options().read(true).write(true).open(object).expect("the node made it");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is as long as that");
    file.write_all_at(&[byte[0] ^ (1 << bit)], at).expect("the disk is ours");
}

/// Objects that are not empty: files in folders of two digits.
fn find_objects(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_full = entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if path.is_dir() {
            find_objects(&path, into);
        } else if is_full && folder.file_name().is_some_and(|name| name.len() == 2) {
            into.push(path);
        }
    }
}
