//! Before everything is called drained: whether what has landed is still there. The ledger says what was verified once;
//! somebody may have moved the folder away since, removed a copy, or put another file in its place.
//!
//! **Invariant:** what is missing is copied again where the node still has it; what is another's is never overwritten
//! and never called drained.

use std::path::{Path, PathBuf};

use disk::below::{Folders, Root};
use rustix::io::Errno;

use crate::drain::Drain;
use crate::generation::{Seen, find, if_there, look_in};
use crate::intents::Intent;
use crate::ledger::Landed;
use crate::mounted;
use crate::placed::{Over, Placed, sum_of};
use crate::settings::Removed;
use crate::status::Trouble;
use crate::table::Attempt;

/// What is there of a copy.
enum There {
    It,
    Nothing,
    Another(&'static str),
    /// A file of another inode, whoever made it.
    Foreign(&'static str),
}

impl Drain {
    /// Forgets what is not there any more, so that it is copied again; says what is there instead of the rest.
    pub(crate) fn revisit(&self) -> Vec<Trouble> {
        let landed: Vec<(PathBuf, Landed)> = {
            let state = self.lock();
            state.ledger.landed().map(|(path, landed)| (path.clone(), landed.clone())).collect()
        };
        // They are reached once for all that lie in them.
        let folders = Folders::below(Root::at(&self.to));
        let look = |(path, landed): &(PathBuf, Landed)| {
            !matches!(self.there(&folders, path, landed), Ok(There::It)) && self.seize(path, landed)
        };
        let suspects: Vec<_> = landed.into_iter().filter(look).collect();
        let troubles = self.judge(&suspects);
        let mut state = self.lock();
        state.disputed.clone_from(&troubles);
        for (path, _) in &suspects {
            self.settle_one(&mut state, path, Attempt::Done);
        }
        troubles
    }

    /// Takes a file in work, unless it is: then it is decided about anyway.
    fn seize(&self, path: &Path, landed: &Landed) -> bool {
        let mut state = self.lock();
        state.ledger.get(path) == Some(landed) && state.table.seize(path)
    }

    fn judge(&self, suspects: &[(PathBuf, Landed)]) -> Vec<Trouble> {
        let (mut missing, mut troubles) = (Vec::new(), Vec::new());
        for (path, landed) in suspects {
            match self.there_now(path, landed) {
                Ok(There::It) => {}
                Ok(There::Nothing) => missing.push((path, landed)),
                // Nothing is owed any more.
                Ok(There::Another(why)) if self.is_gone(path) => self.let_be(path, landed, why),
                // Where removals are followed, the copy was to go.
                Ok(There::Foreign(why))
                    if self.is_gone(path) && (self.removed == Removed::Follow || self.is_to_be(path)) =>
                {
                    self.let_be(path, landed, why);
                }
                Ok(There::Foreign(_)) if self.is_gone(path) => troubles.push(lost(path, &landed.target)),
                Ok(There::Another(why) | There::Foreign(why)) => {
                    troubles.push(replaced(path, &landed.target, why));
                }
                Err(errno) => troubles.push(unseen(path, &landed.target, errno)),
            }
        }
        // After the looks: where the PFS was away meanwhile, nothing was missing.
        match self.copier.pfs.check() {
            Err(error) if !missing.is_empty() => troubles.push(mounted::trouble(&self.to, &error)),
            Err(_) => {}
            Ok(()) => missing.into_iter().for_each(|(path, landed)| self.forget(path, landed)),
        }
        troubles
    }

    /// Takes out what was called lost, and whose file has landed under another name since: it was renamed just before.
    pub(crate) fn reconsider(&self, troubles: &mut Vec<Trouble>) {
        troubles.retain(|trouble| {
            let path = Path::new(&trouble.path);
            if trouble.advice != LOST_ADVICE {
                return true;
            }
            let state = self.lock();
            let (landed, lives_on) = (state.ledger.get(path).cloned(), self.lives_on(&state, path));
            drop(state);
            match landed {
                Some(landed) if lives_on => self.let_be(path, &landed, "another file is there now"),
                Some(_) => return true,
                // That was said as its new name landed.
                None => {}
            }
            false
        });
    }

    /// Whether what has landed is there, so far as `target` is its name.
    ///
    /// # Errors
    /// Somebody has changed the copy on the PFS: it is not replaced by a newer version either.
    pub(crate) fn is_there(
        &self,
        path: &Path,
        target: &Path,
        landed: Option<&Landed>,
    ) -> Result<bool, Trouble> {
        let Some(landed) = landed.filter(|landed| landed.target == target) else {
            return self.has_not_landed(path, target).map(|()| false);
        };
        let is_begun = self.lock().ledger.traces(path).len() > 1;
        match self.there_now(path, landed) {
            // It may be a newer one that was begun.
            Ok(There::It) => Ok(!is_begun),
            Ok(There::Nothing) => {
                self.forget_folders(landed);
                Ok(false)
            }
            // Who looks for the source sees that nothing is owed.
            Ok(There::Another(_) | There::Foreign(_)) | Err(_) if self.is_gone(path) => Ok(false),
            Ok(There::Another(why) | There::Foreign(why)) => Err(replaced(path, target, why)),
            // Who cannot look does not know.
            Err(errno) => Err(unseen(path, target, errno)),
        }
    }

    /// Of a copy that had its name, and that is not known to have got to the disk with it.
    fn has_not_landed(&self, path: &Path, target: &Path) -> Result<(), Trouble> {
        let placed = self.lock().ledger.placed(target).cloned();
        let Some(placed) = placed else { return Ok(()) };
        let there = find(&Root::at(&self.to), target).map_err(|errno| unseen(path, target, errno))?;
        let Some(there) = there else { return Ok(()) };
        // What was there before the first copy is replaced, and what another node has put there is known to be that.
        let is_elsewhere = || self.claims.is_elsewhere(target) == Ok(true);
        let is_after = placed.had_name() || placed.is_succeeded(&there) && !is_elsewhere();
        let Some(why) = placed.differs(&there).filter(|_| is_after && !self.is_gone(path)) else {
            return Ok(());
        };
        // Who has only touched it need not move it away.
        let sum = |root: &Root, path: &Path| sum_of(root, path).ok();
        let is_same =
            || sum(&Root::at(&self.to), target).is_some_and(|it| sum(self.top.root(), path) == Some(it));
        if placed.is_another(&there).is_none() && is_same() {
            self.accept(target, &there);
            return Ok(());
        }
        Err(replaced(path, target, why))
    }

    fn there_now(&self, path: &Path, landed: &Landed) -> rustix::io::Result<There> {
        self.there(&Folders::below(Root::at(&self.to)), path, landed)
    }

    /// What has the name in one of these folders on the PFS that was given to the copy of `path`.
    fn there(&self, folders: &Folders, path: &Path, landed: &Landed) -> rustix::io::Result<There> {
        let Some(seen) = if_there(folders.with(&landed.target, look_in))? else { return Ok(There::Nothing) };
        let (placed, is_begun) = {
            let ledger = &self.lock().ledger;
            (ledger.placed(&landed.target).cloned(), ledger.traces(path).len() > 1)
        };
        if placed.as_ref().is_some_and(|placed| placed.has(&seen) || placed.is_begun(&seen)) {
            return Ok(There::It);
        }
        let is_same_inode = placed.as_ref().is_none_or(|placed| placed.has_inode(&seen));
        let is_noted = placed.is_some();
        if let Some(why) = placed.and_then(|placed| placed.is_another(&seen)) {
            return Ok(if is_same_inode { There::Another(why) } else { There::Foreign(why) });
        }
        if !is_begun && seen.generation.size != landed.generation.size {
            return Ok(There::Another("it was changed there"));
        }
        // It was touched, or nothing is noted of it: what it holds must tell, unless it may be a version that was begun
        // since.
        let Some(expected) = landed.crc32c.filter(|_| is_noted || !is_begun) else { return Ok(There::It) };
        let found = sum_of(&Root::at(&self.to), &landed.target);
        let found = found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if found != expected {
            return Ok(There::Another("it was changed there"));
        }
        self.accept(&landed.target, &seen);
        Ok(There::It)
    }

    /// What has the name holds what was put there, though somebody has touched it.
    fn accept(&self, target: &Path, seen: &Seen) {
        let inode = Placed::compared(seen);
        if let Err(error) = self.lock().ledger.place(target, inode, None) {
            tracing::warn!("write the ledger: {error}");
        }
        self.claims.say(&Intent { name: target.to_owned(), inode, over: Over::Nothing });
    }

    /// Nothing of the file is on the PFS any more.
    fn forget(&self, path: &Path, landed: &Landed) {
        tracing::warn!(
            "{} was removed on the PFS, or moved away: it is copied again",
            landed.target.display()
        );
        self.forget_folders(landed);
        self.strike(path);
        if self.is_gone(path) {
            self.log_removed(path, landed);
        }
    }

    /// Those above it may be gone with it.
    fn forget_folders(&self, landed: &Landed) {
        landed.target.ancestors().skip(1).for_each(|folder| self.copier.publisher.forget_folder(folder));
    }

    /// Whether another file may be in the place of a copy whose file has gone on the node: it is there under its new
    /// name, or who waited has heard of it while the node had the file, and has removed that since, as is advised.
    fn is_to_be(&self, path: &Path) -> bool {
        let state = self.lock();
        let is_it = |told: &Trouble| Path::new(&told.path) == path && told.advice != LOST_ADVICE;
        state.disputed.iter().any(is_it) || self.lives_on(&state, path)
    }

    /// Somebody else's file has the name on the PFS, and the node has none.
    fn let_be(&self, path: &Path, landed: &Landed, why: &str) {
        if let Err(error) = self.lock().ledger.keep(path, &[&*landed.target]) {
            tracing::warn!("write the ledger: {error}");
        }
        self.log_kept(path, landed, why);
    }

    fn strike(&self, path: &Path) {
        if let Err(error) = self.lock().ledger.gone(path) {
            tracing::warn!("write the ledger: {error}");
        }
    }

    pub(crate) fn is_gone(&self, path: &Path) -> bool {
        self.top.find(path).is_ok_and(|found| found.is_none())
    }
}

fn replaced(path: &Path, target: &Path, why: &str) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: Errno::EXIST.raw_os_error(),
        message: format!("{} is not what was drained there: {why}", target.display()),
        advice: "move it away, and the file is drained again; or remove the file on the node if what is there is right"
            .to_owned(),
    }
}

/// The only copy was replaced.
fn lost(path: &Path, target: &Path) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: Errno::EXIST.raw_os_error(),
        message: format!(
            "{} is not what was drained there: another file is there now, and the node's was removed",
            target.display()
        ),
        advice: LOST_ADVICE.to_owned(),
    }
}

const LOST_ADVICE: &str = "see who has put it there (another job, or a node without its claims) and whether the \
                           drained file still is somewhere; then move what is there away, wait again, and move it \
                           back if it is right";

fn unseen(path: &Path, target: &Path, errno: Errno) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: errno.raw_os_error(),
        message: format!("look at {}: {}", target.display(), std::io::Error::from(errno)),
        advice: "look at the permissions of the folders above it and at the parallel file system; it is looked at again"
            .to_owned(),
    }
}
