//! Files without a name: they live as long as they are open.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{Failure, STOP, failed};
use tests::random::Random;

const BYTES: usize = 200_000;

/// Makes files, takes their names away, and uses them, until it is told to stop; how many.
pub fn work(mount: &Path, number: u64, seed: u64) -> Result<u64, Failure> {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut count = 0;
    while !STOP.load(Ordering::Relaxed) {
        let path = mount.join(format!("unlinked-{number}-{count}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(failed("create", &path))?;
        std::fs::remove_file(&path).map_err(failed("unlink", &path))?;
        use_it(&file, &path, &mut random)?;
        count += 1;
    }
    Ok(count)
}

fn use_it(file: &File, path: &Path, random: &mut Random) -> Result<(), Failure> {
    let mut known = vec![0; BYTES];
    let mut end = 0;
    for _ in 0..20 {
        let len = 1 + random.below(20_000) as usize;
        let at = random.below((BYTES - len) as u64) as usize;
        let bytes = tests::tree::bytes(random.below(u64::MAX), len);
        file.write_all_at(&bytes, at as u64).map_err(failed("write nameless", path))?;
        known[at..at + len].copy_from_slice(&bytes);
        end = end.max(at + len);
        let mut found = vec![0; end];
        file.read_exact_at(&mut found, 0).map_err(failed("read nameless", path))?;
        if found != known[..end] {
            return Err(format!("nameless {path:?} has other bytes than were written"));
        }
    }
    Ok(())
}
