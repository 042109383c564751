//! Files whose fsyncs are believed while storage nodes lose their power, one at a time: what was confirmed must be
//! there, whatever else a call says, and no file ever has bytes of another.
//!
//! Every word of eight bytes in a file names the file, its place and the version of the write. A read of it is right
//! when it is the version that the last fsync confirmed, or one that was written since; zeros where nothing was
//! confirmed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Failure, STOP};
use tests::random::Random;

/// Words in a file: a few stripes of 64 KiB.
const WORDS: usize = 40_000;

/// Files that one worker has open.
const OPEN: usize = 4;

/// No two files of a run have one number.
static NEXT_FILE: AtomicU64 = AtomicU64::new(1);

/// A file and what is known of it.
pub struct Kept {
    path: PathBuf,
    number: u64,
    /// By word: the version that is confirmed, and the last that was written. 0: none.
    words: Vec<(u16, u16)>,
    /// Its name is, too.
    confirmed: bool,
}

/// What a worker did.
#[derive(Default)]
pub struct Work {
    files: Vec<Kept>,
    /// Syncs that said OK, and that did not.
    pub confirmed: u64,
    pub refused: u64,
}

/// Works until it is told to stop.
pub fn work(mount: &Path, seed: u64) -> Work {
    let mut random = Random::new(seed);
    let mut work = Work::default();
    let mut open: Vec<(File, Kept)> = Vec::new();
    while !STOP.load(Ordering::Relaxed) {
        if open.len() < OPEN {
            open.extend(create(mount));
            continue;
        }
        let at = random.below(OPEN as u64) as usize;
        let (file, kept) = &mut open[at];
        let went_well = match random.below(8) {
            0 | 1 => sync(file, kept, &mut work),
            _ => write(file, kept, &mut random),
        };
        if !went_well || random.below(12) == 0 {
            let (_, kept) = open.swap_remove(at);
            work.files.push(kept);
        }
    }
    work.files.extend(open.into_iter().map(|(_, kept)| kept));
    work
}

fn create(mount: &Path) -> Option<(File, Kept)> {
    let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
    let path = mount.join(format!("confirmed-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).ok()?;
    Some((file, Kept { path, number, words: vec![(0, 0); WORDS], confirmed: false }))
}

fn write(file: &File, kept: &mut Kept, random: &mut Random) -> bool {
    let len = 1 + random.below(9000) as usize;
    let at = random.below((WORDS - len) as u64) as usize;
    let version = kept.words[at..at + len].iter().map(|(_, last)| *last).max().unwrap_or(0).saturating_add(1);
    let bytes: Vec<u8> = (at..at + len).flat_map(|at| word(kept.number, at, version).to_le_bytes()).collect();
    // Whatever the answer is, it may be there.
    kept.words[at..at + len].iter_mut().for_each(|(_, last)| *last = version);
    file.write_all_at(&bytes, 8 * at as u64).is_ok()
}

/// After an error nothing is known but what was confirmed before.
fn sync(file: &File, kept: &mut Kept, work: &mut Work) -> bool {
    if file.sync_all().is_err() {
        work.refused += 1;
        return false;
    }
    work.confirmed += 1;
    kept.confirmed = true;
    kept.words.iter_mut().for_each(|(confirmed, last)| *confirmed = *last);
    true
}

fn word(number: u64, at: usize, version: u16) -> u64 {
    number << 40 | (at as u64) << 16 | u64::from(version)
}

impl Work {
    /// Compares every file with the buffer that is mounted at `mount`; how many were confirmed.
    pub fn verify(&self, mount: &Path) -> Result<u64, Failure> {
        let mut confirmed = 0;
        for kept in &self.files {
            let path = mount.join(kept.path.file_name().expect("it has a name"));
            match fs::read(&path) {
                Ok(bytes) => kept.compare(&path, &bytes)?,
                Err(error) if kept.confirmed => return Err(format!("{path:?} was confirmed: {error}")),
                Err(_) => {}
            }
            confirmed += u64::from(kept.confirmed);
        }
        Ok(confirmed)
    }
}

impl Kept {
    fn compare(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        for (at, (confirmed, last)) in self.words.iter().enumerate() {
            let found = bytes
                .get(8 * at..8 * at + 8)
                .map_or(0, |word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
            let version = u16::try_from(found & 0xffff).expect("16 bits");
            let is_own = found == word(self.number, at, version) && version <= *last && version >= *confirmed;
            if !(is_own || (found == 0 && *confirmed == 0)) {
                return Err(format!(
                    "{path:?} has {found:#x} at word {at}: version {confirmed} was confirmed, {last} written last, \
                     and its words begin with {:#x}",
                    word(self.number, at, 0)
                ));
            }
        }
        Ok(())
    }
}
