//! A log of seals that could not be written or synced: a new one takes its place, with all seals that can be had.
//!
//! Nothing is known of what such a file keeps from there on, so nothing is appended to it any more. The seals are in
//! memory, and their sums are read back and compared with their own checksums: an object whose sums are not right is
//! unsealed from then on, and summed anew.
//!
//! **Invariant:** the old log, or what it has on the disk, is in place until the new one is whole and synced; no note
//! is taken for made before it is durable in the one that is in place.

use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use model::Ino;
use rustix::io::Errno;

use super::SealLog;
use super::end::{End, Trouble};

/// Between two tries to put a new log in the place of a broken one.
const TRY_EVERY: Duration = Duration::from_secs(1);

impl SealLog {
    /// Why nothing can be noted in it, if so: what is sealed can be neither changed nor removed then.
    pub fn trouble(&self) -> Option<String> {
        let end = self.end();
        let trouble = end.trouble.as_ref().filter(|_| end.broken)?;
        let (path, why) = (self.path.display(), &trouble.why);
        Some(format!("the log of checksums {path} cannot be written, nor replaced by a new one: {why}"))
    }

    /// Appends notes, and syncs them: where the log breaks, to a new one.
    pub(super) fn append_notes(
        &self,
        end: &mut End,
        append: impl Fn(&mut End) -> io::Result<()>,
    ) -> io::Result<()> {
        if !end.broken {
            match append(end) {
                Err(error) if end.broken => {
                    let path = self.path.display();
                    tracing::error!(%path, %error, "a log of checksums cannot be written any more");
                }
                done => return done,
            }
        }
        self.replace_broken(end)?;
        append(end)
    }

    /// Puts a new log in the place of one that broke.
    ///
    /// # Errors
    /// The errno of what failed; EIO where that was just tried.
    pub(super) fn replace_broken(&self, end: &mut End) -> io::Result<()> {
        if !end.broken {
            return Ok(());
        }
        if end.trouble.as_ref().is_some_and(|trouble| trouble.tried.elapsed() < TRY_EVERY) {
            return Err(Errno::IO.into());
        }
        let unsealed = self.drop_unreadable(end);
        let path = self.path.display();
        match self.rewrite(end) {
            Ok(()) => {
                tracing::warn!(%path, unsealed, "a new log of checksums has taken the place of a broken one");
                Ok(())
            }
            Err(error) => {
                let _left = std::fs::remove_file(self.path.with_extension("rewritten"));
                if end.trouble.is_none() {
                    tracing::error!(
                        %path, %error,
                        "no new log of checksums can be made: files at rest can be neither changed nor removed until \
                         its file system can be written again; look at the disk, or at how it is mounted"
                    );
                }
                end.trouble = Some(Trouble { tried: Instant::now(), why: error.to_string() });
                Err(error)
            }
        }
    }

    /// Forgets seals whose sums cannot be had any more. How many.
    fn drop_unreadable(&self, end: &mut End) -> usize {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let is_whole = |sealed: &super::Sealed| {
            sealed.seal.chunks.iter().all(|chunk| sealed.seal.sums(chunk.index).is_ok())
        };
        let lost: Vec<Ino> = index
            .iter()
            .filter(|(_, sealed)| !sealed.lifted && !is_whole(sealed))
            .map(|(ino, _)| *ino)
            .collect();
        for ino in &lost {
            let gone = index.remove(ino).map_or(0, |sealed| super::live_bytes(&sealed.seal));
            end.live -= gone.min(end.live);
        }
        lost.len()
    }

    /// From now on nothing can be written to the file that the log is in.
    #[cfg(test)]
    pub fn break_file(&self) {
        self.end().file = std::sync::Arc::new(std::fs::File::open(&self.path).expect("it is there"));
    }
}
