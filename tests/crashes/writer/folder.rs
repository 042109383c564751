//! One folder of a buffer, and all that is known of it: names, contents, modes and times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Failure, failed};
use tests::random::Random;

/// Names that files have.
const NAMES: u64 = 60;

/// No file is longer, bytes: a few stripes of 64 KiB.
const BYTES_MAX: u64 = 400_000;

/// What a file is like.
#[derive(Clone, Debug)]
struct Known {
    bytes: Vec<u8>,
    mode: u32,
    /// Set by `utimensat` after the last write.
    mtime: Option<u64>,
    /// Nothing was written since the last fsync.
    synced: bool,
}

/// What is there: files by number, and their names.
#[derive(Clone, Default)]
struct Picture {
    files: BTreeMap<u64, Known>,
    names: BTreeMap<String, u64>,
}

/// The folder.
pub struct Folder {
    path: PathBuf,
    name: String,
    random: Random,
    now: Picture,
    next: u64,
    /// As it was at the last fsync, and what was changed since.
    durable: Picture,
    changed_names: BTreeSet<String>,
    changed_files: BTreeSet<u64>,
    steps: u64,
    syncs: u64,
}

impl Folder {
    /// Makes the folder.
    pub fn make(mount: &Path, name: &str, seed: u64) -> Result<Folder, Failure> {
        let path = mount.join(name);
        fs::create_dir(&path).map_err(failed("mkdir", &path))?;
        Ok(Folder {
            path,
            name: name.to_owned(),
            random: Random::new(seed),
            now: Picture::default(),
            next: 1,
            durable: Picture::default(),
            changed_names: BTreeSet::new(),
            changed_files: BTreeSet::new(),
            steps: 0,
            syncs: 0,
        })
    }

    /// How many things were done.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How many of them were fsyncs.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Makes the folder itself survive a power loss.
    pub fn sync_all(&mut self) -> Result<(), Failure> {
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed("fsync", &self.path))
    }

    /// Does one thing and notes what came of it.
    pub fn step(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        match self.random.below(16) {
            0..=2 => self.create(),
            3..=5 => self.overwrite(),
            6 => self.append(),
            7 => self.truncate(),
            8 | 9 => self.rename(),
            10 => self.link(),
            11 => self.unlink(),
            12 => self.attributes(),
            13 => self.look(),
            14 => self.list(&self.path.clone()),
            _ => self.sync(),
        }
    }

    /// Compares everything with the buffer that is mounted at `mount`.
    pub fn verify(&self, mount: &Path) -> Result<(), Failure> {
        let folder = mount.join(&self.name);
        self.list(&folder)?;
        self.now.names.iter().try_for_each(|(name, file)| {
            let path = folder.join(name);
            let known = &self.now.files[file];
            compare_bytes(&path, &known.bytes)?;
            self.compare_attributes(&path, *file)
        })
    }

    /// Compares what was known at the last fsync and not changed since. Returns how many names that are.
    pub fn verify_durable(&self, mount: &Path) -> Result<usize, Failure> {
        let folder = mount.join(&self.name);
        let listed = listing(&folder)?;
        let expected = self.durable.names.keys();
        let all: BTreeSet<&String> = listed.iter().chain(expected).collect();
        let mut compared = 0;
        for name in all.into_iter().filter(|name| !self.changed_names.contains(*name)) {
            let path = folder.join(name);
            let Some(file) = self.durable.names.get(name) else {
                return Err(format!("{path:?} is back, though its name was gone before an fsync"));
            };
            if !listed.contains(name) {
                return Err(format!("{path:?} is gone, though it was there before an fsync"));
            }
            let known = &self.durable.files[file];
            if self.changed_files.contains(file) {
                continue;
            }
            let found = fs::metadata(&path).map_err(failed("stat", &path))?;
            if found.mode() & 0o7777 != known.mode {
                return Err(format!("{path:?} has mode {:o}, not {:o}", found.mode() & 0o7777, known.mode));
            }
            if known.synced {
                compare_bytes(&path, &known.bytes)?;
            }
            compared += 1;
        }
        Ok(compared)
    }

    fn create(&mut self) -> Result<(), Failure> {
        let name = self.any_name();
        let path = self.path.join(&name);
        let taken = self.now.names.contains_key(&name);
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
        if taken {
            let refused = opened.is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists);
            return if refused { Ok(()) } else { Err(format!("{path:?} was made though it was there")) };
        }
        // Whatever becomes of it, it may be there.
        self.changed_names.insert(name.clone());
        let file = opened.map_err(failed("create", &path))?;
        let mode = 0o600 + self.random.below(8) as u32 * 8;
        file.set_permissions(Permissions::from_mode(mode)).map_err(failed("fchmod", &path))?;
        let number = self.next;
        self.next += 1;
        self.now.names.insert(name, number);
        self.now.files.insert(number, Known { bytes: Vec::new(), mode, mtime: None, synced: true });
        self.changed_files.insert(number);
        self.write(&file, &path, number, 0)?;
        if self.random.below(3) == 0 { self.confirm(&file, &path, number) } else { Ok(()) }
    }

    fn overwrite(&mut self) -> Result<(), Failure> {
        let Some((path, number)) = self.any_file() else { return Ok(()) };
        let file = OpenOptions::new().write(true).open(&path).map_err(failed("open", &path))?;
        for _ in 0..1 + self.random.below(3) {
            let len = self.now.files[&number].bytes.len() as u64;
            let at = self.random.below(len + 1 + len / 8).min(BYTES_MAX);
            self.write(&file, &path, number, at)?;
        }
        if self.random.below(3) == 0 { self.confirm(&file, &path, number) } else { Ok(()) }
    }

    fn append(&mut self) -> Result<(), Failure> {
        let Some((path, number)) = self.any_file() else { return Ok(()) };
        let mut file = OpenOptions::new().append(true).open(&path).map_err(failed("open", &path))?;
        let bytes = self.bytes(BYTES_MAX - (self.now.files[&number].bytes.len() as u64).min(BYTES_MAX));
        self.changed_files.insert(number);
        file.write_all(&bytes).map_err(failed("append to", &path))?;
        self.written(number).bytes.extend_from_slice(&bytes);
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), Failure> {
        let Some((path, number)) = self.any_file() else { return Ok(()) };
        let size = self.random.below(BYTES_MAX);
        let file = OpenOptions::new().write(true).open(&path).map_err(failed("open", &path))?;
        self.changed_files.insert(number);
        file.set_len(size).map_err(failed("truncate", &path))?;
        self.written(number).bytes.resize(size as usize, 0);
        Ok(())
    }

    fn rename(&mut self) -> Result<(), Failure> {
        let (Some(from), to) = (self.used_name(), self.any_name()) else { return Ok(()) };
        let (old, new) = (self.path.join(&from), self.path.join(&to));
        self.changed_names.extend([from.clone(), to.clone()]);
        fs::rename(&old, &new).map_err(failed("rename", (&old, &new)))?;
        // Two names of one file: POSIX leaves both.
        if self.now.names.get(&from) != self.now.names.get(&to) {
            let number = self.now.names.remove(&from).expect("it is a used name");
            self.now.names.insert(to, number);
        }
        Ok(())
    }

    fn link(&mut self) -> Result<(), Failure> {
        let (Some(from), to) = (self.used_name(), self.any_name()) else { return Ok(()) };
        if self.now.names.contains_key(&to) {
            return Ok(());
        }
        let (old, new) = (self.path.join(&from), self.path.join(&to));
        self.changed_names.insert(to.clone());
        fs::hard_link(&old, &new).map_err(failed("link", (&old, &new)))?;
        self.now.names.insert(to, self.now.names[&from]);
        Ok(())
    }

    fn unlink(&mut self) -> Result<(), Failure> {
        let Some(name) = self.used_name() else { return Ok(()) };
        let path = self.path.join(&name);
        self.changed_names.insert(name.clone());
        fs::remove_file(&path).map_err(failed("unlink", &path))?;
        self.now.names.remove(&name);
        Ok(())
    }

    fn attributes(&mut self) -> Result<(), Failure> {
        let Some((path, number)) = self.any_file() else { return Ok(()) };
        let (mode, seconds) =
            (0o600 + self.random.below(8) as u32, 1_000_000_000 + self.random.below(1 << 29));
        self.changed_files.insert(number);
        fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(failed("chmod", &path))?;
        let known = self.now.files.get_mut(&number).expect("it has a name");
        known.mode = mode;
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let set = File::open(&path).and_then(|file| file.set_times(times));
        set.map_err(failed("set the times of", &path))?;
        known.mtime = Some(seconds);
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        let Some((path, number)) = self.any_file() else { return Ok(()) };
        compare_bytes(&path, &self.now.files[&number].bytes)?;
        self.compare_attributes(&path, number)
    }

    fn list(&self, folder: &Path) -> Result<(), Failure> {
        let found = listing(folder)?;
        let known: BTreeSet<String> = self.now.names.keys().cloned().collect();
        let difference: Vec<_> = known.symmetric_difference(&found).collect();
        if difference.is_empty() { Ok(()) } else { Err(format!("{folder:?} differs in {difference:?}")) }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let Some((path, number)) = self.any_file() else { return Ok(()) };
        let file = File::open(&path).map_err(failed("open", &path))?;
        self.confirm(&file, &path, number)
    }

    /// Once fsync has returned, all names and attributes are durable, and this file's contents.
    fn confirm(&mut self, file: &File, path: &Path, number: u64) -> Result<(), Failure> {
        file.sync_all().map_err(failed("fsync", path))?;
        self.now.files.get_mut(&number).expect("it has a name").synced = true;
        self.durable = self.now.clone();
        self.changed_names.clear();
        self.changed_files.clear();
        self.syncs += 1;
        Ok(())
    }

    fn write(&mut self, file: &File, path: &Path, number: u64, at: u64) -> Result<(), Failure> {
        let bytes = self.bytes(BYTES_MAX - at);
        if bytes.is_empty() {
            return Ok(());
        }
        self.changed_files.insert(number);
        file.write_all_at(&bytes, at).map_err(failed("write", path))?;
        let (at, end) = (at as usize, at as usize + bytes.len());
        let known = self.written(number);
        let len = known.bytes.len().max(end);
        known.bytes.resize(len, 0);
        known.bytes[at..end].copy_from_slice(&bytes);
        Ok(())
    }

    fn written(&mut self, number: u64) -> &mut Known {
        let known = self.now.files.get_mut(&number).expect("it has a name");
        (known.mtime, known.synced) = (None, false);
        known
    }

    fn compare_attributes(&self, path: &Path, number: u64) -> Result<(), Failure> {
        let known = &self.now.files[&number];
        let links = self.now.names.values().filter(|file| **file == number).count() as u64;
        let found = fs::metadata(path).map_err(failed("stat", path))?;
        let expected = (known.bytes.len() as u64, known.mode, links);
        let seen = (found.len(), found.mode() & 0o7777, found.nlink());
        if seen != expected {
            return Err(format!("{path:?} has (size, mode, links) {seen:?}, not {expected:?}"));
        }
        match known.mtime {
            Some(seconds) if found.mtime() != seconds.cast_signed() => {
                Err(format!("{path:?} has the time {}, not {seconds}", found.mtime()))
            }
            _ => Ok(()),
        }
    }

    /// A random number of random bytes, at most `limit`.
    fn bytes(&mut self, limit: u64) -> Vec<u8> {
        let most = [100, 5_000, 70_000, 200_000][self.random.below(4) as usize];
        let len = self.random.below(most.min(limit) + 1);
        tests::tree::bytes(self.random.below(u64::MAX), len as usize)
    }

    fn any_name(&mut self) -> String {
        format!("name-{}", self.random.below(NAMES))
    }

    fn used_name(&mut self) -> Option<String> {
        let count = self.now.names.len() as u64;
        let which = if count == 0 { return None } else { self.random.below(count) };
        self.now.names.keys().nth(which as usize).cloned()
    }

    fn any_file(&mut self) -> Option<(PathBuf, u64)> {
        let name = self.used_name()?;
        Some((self.path.join(&name), self.now.names[&name]))
    }
}

fn listing(folder: &Path) -> Result<BTreeSet<String>, Failure> {
    let entries = fs::read_dir(folder).map_err(failed("list", folder))?;
    entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()
        .map_err(failed("list", folder))
}

fn compare_bytes(path: &Path, known: &[u8]) -> Result<(), Failure> {
    let found = fs::read(path).map_err(failed("read", path))?;
    if found == known {
        return Ok(());
    }
    let at = found.iter().zip(known).position(|(a, b)| a != b).unwrap_or(found.len().min(known.len()));
    Err(format!(
        "{path:?} differs at byte {at}: it has {} bytes, {} were acknowledged",
        found.len(),
        known.len()
    ))
}
