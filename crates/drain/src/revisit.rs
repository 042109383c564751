//! Before everything is called drained: whether what has landed is still there. The ledger says what was verified once;
//! somebody may have moved the folder away since, removed a copy, or put another file in its place.
//!
//! **Invariant:** what is missing is copied again where the node still has it; what is another's is never overwritten
//! and never called drained.

use std::path::{Path, PathBuf};
use std::time::Instant;

use disk::below::Root;
use rustix::io::Errno;

use crate::drain::Drain;
use crate::generation::find;
use crate::ledger::Landed;
use crate::mounted;
use crate::placed::{Placed, sum_of};
use crate::status::Trouble;
use crate::table::Attempt;

/// What is there of a copy.
enum There {
    It,
    Nothing,
    Another(&'static str),
}

impl Drain {
    /// Forgets what is not there any more, so that it is copied again; says what is there instead of the rest.
    pub(crate) fn revisit(&self) -> Vec<Trouble> {
        let landed: Vec<(PathBuf, Landed)> = {
            let state = self.lock();
            state.ledger.landed().map(|(path, landed)| (path.clone(), landed.clone())).collect()
        };
        let look = |(path, landed): &(PathBuf, Landed)| {
            !matches!(self.there(path, landed), Ok(There::It)) && self.seize(path, landed)
        };
        let suspects: Vec<_> = landed.into_iter().filter(look).collect();
        let troubles = self.judge(&suspects);
        let mut state = self.lock();
        state.disputed.clone_from(&troubles);
        for (path, _) in &suspects {
            state.table.settle(path, Attempt::Done, Instant::now());
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
            match self.there(path, landed) {
                Ok(There::It) => {}
                Ok(There::Nothing) => missing.push((path, landed)),
                // Nothing is owed any more.
                Ok(There::Another(why)) if self.is_gone(path) => self.let_be(path, landed, why),
                Ok(There::Another(why)) => troubles.push(replaced(path, landed, why)),
                Err(errno) => troubles.push(unseen(path, landed, errno)),
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

    /// Somebody has changed the copy on the PFS: it is not replaced by a newer version either.
    pub(crate) fn is_changed(&self, path: &Path, target: &Path, landed: &Landed) -> Option<Trouble> {
        // A newer one that was begun may be there, or be noted for a name that it did not get.
        if landed.target != target || self.lock().ledger.traces(path).len() > 1 {
            return None;
        }
        match self.there(path, landed) {
            Ok(There::Another(why)) => Some(replaced(path, landed, why)),
            Ok(There::It | There::Nothing) => None,
            // Who cannot look does not know.
            Err(errno) => Some(unseen(path, landed, errno)),
        }
    }

    /// What has the name on the PFS that was given to the copy of `path`.
    fn there(&self, path: &Path, landed: &Landed) -> rustix::io::Result<There> {
        let Some(seen) = find(&Root::at(&self.to), &landed.target)? else { return Ok(There::Nothing) };
        let (placed, is_begun) = {
            let ledger = &self.lock().ledger;
            (ledger.placed(&landed.target), ledger.traces(path).len() > 1)
        };
        if placed.is_some_and(|placed| placed.is(&seen)) {
            return Ok(There::It);
        }
        if let Some(why) = placed.and_then(|placed| placed.holds_another(&seen)) {
            return Ok(There::Another(why));
        }
        // It was touched, or nothing is noted of it: what it holds must tell, unless it may be a version that was begun
        // since.
        let Some(expected) = landed.crc32c.filter(|_| !is_begun) else { return Ok(There::It) };
        let found = sum_of(&Root::at(&self.to), &landed.target);
        let found = found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if found != expected {
            return Ok(There::Another("it was changed there"));
        }
        if let Err(error) = self.lock().ledger.place(&landed.target, Placed::now(&seen)) {
            tracing::warn!("write the ledger: {error}");
        }
        Ok(There::It)
    }

    /// Nothing of the file is on the PFS any more.
    fn forget(&self, path: &Path, landed: &Landed) {
        tracing::warn!(
            "{} was removed on the PFS, or moved away: it is copied again",
            landed.target.display()
        );
        landed.target.ancestors().skip(1).for_each(|folder| self.copier.publisher.forget_folder(folder));
        self.strike(path);
        if self.is_gone(path) {
            self.log_removed(path, landed);
        }
    }

    /// Somebody else's file has the name on the PFS, and the node has none.
    fn let_be(&self, path: &Path, landed: &Landed, why: &str) {
        self.strike(path);
        self.log_kept(path, landed, why);
    }

    fn strike(&self, path: &Path) {
        if let Err(error) = self.lock().ledger.gone(path) {
            tracing::warn!("write the ledger: {error}");
        }
    }

    fn is_gone(&self, path: &Path) -> bool {
        self.top.find(path).is_ok_and(|found| found.is_none())
    }
}

fn replaced(path: &Path, landed: &Landed, why: &str) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: Errno::EXIST.raw_os_error(),
        message: format!("{} is not what was drained there: {why}", landed.target.display()),
        advice: "move it away, and the file is drained again; or remove the file on the node if what is there is right"
            .to_owned(),
    }
}

fn unseen(path: &Path, landed: &Landed, errno: Errno) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: errno.raw_os_error(),
        message: format!("look at {}: {}", landed.target.display(), std::io::Error::from(errno)),
        advice: "look at the permissions of the folders above it and at the parallel file system; it is looked at again"
            .to_owned(),
    }
}
