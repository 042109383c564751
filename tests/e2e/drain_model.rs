//! A writer that writes, rewrites, renames and deletes at random while the drainer is killed again and again, against a
//! model of what must be on the PFS in the end: what is on the node.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tests::tree;

use crate::drain::Node;

/// Steps between two comparisons.
const STEPS: u64 = 150;

/// A small generator of numbers: the same seed gives the same run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn file(&mut self, root: &Path) -> PathBuf {
        root.join(format!("d{}", self.throw(3))).join(format!("f{}", self.throw(6)))
    }
}

struct Writer {
    root: PathBuf,
    dice: Dice,
    /// A file that is kept open over some steps.
    open: Option<fs::File>,
}

impl Writer {
    /// One thing that programs do. Errors are part of the game: the file may not be there.
    fn step(&mut self) {
        let (a, b) = (self.dice.file(&self.root), self.dice.file(&self.root));
        let length = self.dice.throw(200_000);
        let bytes = tree::bytes(self.dice.throw(u64::MAX), usize::try_from(length).unwrap());
        let _ = fs::create_dir_all(a.parent().unwrap());
        let _ = match self.dice.throw(10) {
            0..3 => fs::write(&a, bytes),
            3 => append(&a, &bytes),
            4 => fs::write(a.with_extension("tmp"), bytes)
                .and_then(|()| fs::rename(a.with_extension("tmp"), &a)),
            5 => fs::rename(&a, &b),
            6 => fs::remove_file(&a),
            7 => fs::rename(a.parent().unwrap(), b.parent().unwrap()),
            8 => fs::hard_link(&a, &b),
            _ => self.write_later(&a, &bytes),
        };
    }

    /// Writes one part now and the other when the file is closed, some steps later.
    fn write_later(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(mut before) = self.open.take() {
            before.write_all(bytes)?;
        }
        let mut file = fs::File::create(path)?;
        file.write_all(bytes)?;
        self.open = Some(file);
        Ok(())
    }
}

fn append(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::File::options().append(true).create(true).open(path)?.write_all(bytes)
}

/// What is in a folder, without the drainer's own files.
fn files(root: &Path, folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if [".forebay-drain", "spectral.log"].iter().any(|own| path == Path::new(own)) {
            continue;
        }
        match fs::read(root.join(&path)) {
            Ok(bytes) => found.push((path, bytes)),
            Err(_) => files(root, &path, found),
        }
    }
    found.sort();
}

#[track_caller]
fn assert_same(node: &Node, seed: u64) {
    let (mut here, mut there) = (Vec::new(), Vec::new());
    files(&node.from, Path::new(""), &mut here);
    files(&node.to, Path::new(""), &mut there);
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    let (here_names, there_names) = (names(&here), names(&there));
    let only = |some: &[PathBuf], others: &[PathBuf]| {
        some.iter().filter(|name| !others.contains(name)).cloned().collect::<Vec<_>>()
    };
    let (missing, surplus) = (only(&here_names, &there_names), only(&there_names, &here_names));
    let history = || {
        let mut ledger = fs::read_to_string(node.from.join(".forebay-drain/ledger")).unwrap();
        ledger += &fs::read_to_string(node.to.join(".forebay-drain/shell/n1.jsonl")).unwrap();
        for path in &surplus {
            let found = fs::metadata(node.to.join(path)).unwrap();
            ledger += &format!("{:?} on the PFS: {found:?}\n", path.display().to_string());
        }
        let is_of = |line: &&str| {
            missing
                .iter()
                .chain(&surplus)
                .any(|path| line.contains(&format!("{:?}", path.display().to_string())))
        };
        ledger.lines().filter(is_of).collect::<Vec<_>>().join("\n")
    };
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "seed {seed}: missing on the PFS: {missing:?}, surplus there: {surplus:?}\n{}",
        history()
    );
    for ((path, here), (_, there)) in here.iter().zip(&there) {
        assert!(here == there, "seed {seed}: {} has other contents on the PFS", path.display());
    }
}

#[test]
fn the_pfs_has_in_the_end_what_a_random_writer_left_though_the_drainer_is_killed() {
    for seed in [1, 2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(folder.path(), "n1", &["--removed", "follow"]);
        let mut writer = Writer { root: node.from.clone(), dice: Dice(0x9E37_79B9 + seed), open: None };
        for round in 0..4 {
            for step in 0..STEPS {
                writer.step();
                if step % 50 == 49 && round > 0 {
                    node.kill();
                    // What happens now is noticed by nobody.
                    (0..10).for_each(|_| writer.step());
                    node.start_drain(&["--removed", "follow"]);
                }
            }
            writer.open = None;
            let waited = node.drain(&["wait"]);
            assert_eq!(waited.code(), 0, "seed {seed}: {}{}", waited.stdout, waited.stderr);
            assert_same(&node, seed);
        }
    }
}

/// Tells a thread to end, also when the test fails before it can.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_is_written_again_and_again_never_goes_back_on_the_pfs() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut last, mut versions) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                if let Ok(text) = fs::read_to_string(node.to.join("file")) {
                    let mut numbers = text.lines().map(|line| line.parse::<u64>().unwrap());
                    let first = numbers.next().expect("an empty file was never closed");
                    assert!(numbers.all(|number| number == first), "parts of two versions");
                    assert!(first >= last, "version {first} came after version {last}");
                    versions += u64::from(first > last);
                    last = first;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            versions
        });
        let end = Ends(&over);
        for version in 1..=600_u64 {
            // In one rename, as careful programs do, or in place.
            let path = node.from.join(if version % 2 == 0 { "file" } else { "new" });
            fs::write(&path, format!("{version}\n").repeat(1000)).unwrap();
            fs::rename(&path, node.from.join("file")).unwrap();
            if version % 200 == 0 {
                node.kill();
                node.start_drain(&[]);
            }
            // Between its bursts the file rests for longer than a copy waits for that.
            std::thread::sleep(std::time::Duration::from_millis(if version % 20 == 0 { 100 } else { 1 }));
        }
        node.drain(&["wait"]).expect_success();
        drop(end);
        reader.join().unwrap()
    });
    assert!(fs::read_to_string(node.to.join("file")).unwrap().starts_with("600\n"));
    assert!(seen >= 3, "{seen} versions arrived");
}
