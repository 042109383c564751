//! One attempt with one file: look, copy, look again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use disk::below::{Place, Root};
use model::phase::Direction;
use rustix::io::Errno;
use stage::fault::{Cause, Fault, READ};
use stage::single::{PUBLISH, Publisher};
use stage::tree::Found;
use stage::version;
use wire::control::Side;

use crate::closed::{Writers, stamps_maps, writers};
use crate::flash::Flash;
use crate::generation::{Generation, Kind, Seen, TICK};
use crate::ledger::Landed;
use crate::mounted::Pfs;
use crate::placed::sum_of;
use crate::source::LOST;
use crate::status::Trouble;
use crate::taken::Taken;
use crate::top::Top;

/// How long a file must not have changed where nobody can tell whether it is open.
const QUIET: Duration = Duration::from_secs(1);

/// What an attempt needs.
pub(crate) struct Copier {
    /// What makes the copy.
    pub publisher: Publisher,
    /// The file system that it is made on.
    pub(crate) pfs: Pfs,
    /// What is drained: its folder, and the files below.
    pub(crate) top: Arc<Top>,
    /// What that is on.
    pub(crate) flash: Arc<Flash>,
    /// What was taken from names on the PFS.
    pub(crate) taken: Arc<Taken>,
    /// Where it is drained to.
    pub to: PathBuf,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The file is under its name on the PFS; its folder is not synced yet.
    Landed(Landed),
    /// It is what has landed before.
    Unchanged,
    /// There is no such file.
    Gone,
    /// It changed.
    Changed,
    /// Somebody has it open for writing.
    Open,
    /// The name on the PFS is another node's.
    Taken(Trouble),
    /// This is in the way of a folder above the name on the PFS.
    Blocked(PathBuf),
    /// It could not be copied.
    Failed(Trouble),
}

impl Copier {
    /// Copies the file `path`, below the drained folder, to `target`, unless that is there in this version: `landed`.
    /// Calls `begin` with the version that it is about to copy: that one comes there or none.
    pub(crate) fn attempt(
        &self,
        path: &Path,
        target: &Path,
        landed: Option<&Landed>,
        begin: impl FnOnce(Generation),
    ) -> Outcome {
        let source = self.top.path().join(path);
        let (before, place) = match self.top.look_at(path) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => return Outcome::Gone,
            Err(errno) => return self.unseen(path, &source, errno),
        };
        if !before.kind.is_drained() {
            return Outcome::Gone;
        }
        let is_it = |landed: &&Landed| landed.generation == before.generation && landed.target == target;
        if landed.filter(is_it).is_some_and(|landed| self.holds_still(path, &place, landed)) {
            return Outcome::Unchanged;
        }
        if let Some(not_now) = self.not_now(&source, &before, &place) {
            return not_now;
        }
        begin(before.generation);
        match self.publisher.publish(found(source.clone(), &before), target) {
            Err(fault) => self.failed(path, target, &fault),
            Ok(published) => match self.top.look_at(path) {
                // A newer version waits for the next attempt.
                Ok((after, _)) if after.generation != before.generation => Outcome::Changed,
                Ok((after, place)) if self.is_open(&source, &after, &place) => Outcome::Open,
                // Also if it has been removed or renamed since: what is there is what it was.
                Ok(_) | Err(_) => Outcome::Landed(Landed {
                    target: target.to_owned(),
                    generation: before.generation,
                    crc32c: published.crc32c,
                    left_out: published.left_out,
                }),
            },
        }
    }

    /// Whether the file holds what landed of it, of which all else says so.
    fn holds_still(&self, path: &Path, place: &Place, landed: &Landed) -> bool {
        let Some(sum) = landed.crc32c else { return true };
        // Of what cannot be read the copier says why.
        stamps_maps(&place.folder) || sum_of(self.top.root(), path).is_ok_and(|found| found == sum)
    }

    fn unseen(&self, path: &Path, source: &Path, errno: Errno) -> Outcome {
        self.flash.suspect(errno);
        Outcome::Failed(local_trouble(path, source, errno))
    }

    /// Why the file is not copied at this moment.
    fn not_now(&self, source: &Path, seen: &Seen, place: &Place) -> Option<Outcome> {
        if seen.generation.distance() < TICK {
            return Some(Outcome::Changed);
        }
        self.is_open(source, seen, place).then_some(Outcome::Open)
    }

    fn is_open(&self, source: &Path, seen: &Seen, place: &Place) -> bool {
        if seen.kind != Kind::File {
            return false;
        }
        match writers(place) {
            Ok(Writers::None) => false,
            Ok(Writers::Some) => true,
            Ok(Writers::Unknown) => !is_quiet(&self.top, source, seen),
            // Whoever copies it says why that does not work.
            Err(_) => false,
        }
    }

    fn failed(&self, path: &Path, target: &Path, fault: &Fault) -> Outcome {
        if fault.side == Side::Pfs && fault.errno() == Some(Errno::NOTDIR) {
            // What was a folder when it was looked at may be none now.
            target.ancestors().skip(1).for_each(|folder| self.publisher.forget_folder(folder));
            if let Some(obstacle) = Root::at(&self.to).obstacle(target) {
                return Outcome::Blocked(obstacle);
            }
        }
        if let (Side::Buffer, Some(errno), false) = (fault.side, fault.errno(), fault.operation == READ) {
            self.flash.suspect(errno);
        }
        match (fault.side, fault.errno(), &fault.cause) {
            (Side::Buffer, _, Cause::Changed) | (_, _, Cause::Stopped) => Outcome::Changed,
            (Side::Buffer, Some(Errno::NOENT | Errno::STALE), _) => Outcome::Changed,
            (Side::Buffer, Some(LOST), _) => Outcome::Failed(lost(path, &fault.path)),
            (Side::Pfs, Some(Errno::EXIST), _) if fault.operation == PUBLISH => Outcome::Taken(Trouble {
                path: path.display().to_string(),
                errno: Errno::EXIST.raw_os_error(),
                message: format!("another node of this job has drained a file to {}", fault.path),
                advice: "give the files of each node names of their own, or start the drain with \
                             --same-name suffix or folder"
                    .to_owned(),
            }),
            _ => Outcome::Failed(trouble(path, fault)),
        }
    }
}

/// What is published: this version or none, see [`crate::source`].
fn found(path: PathBuf, seen: &Seen) -> Found {
    // The flash is this host's, and so is its clock.
    Found { path, device: seen.device, attr: seen.attr, since: version::since(&seen.attr) }
}

fn lost(path: &Path, source: &str) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: Errno::IO.raw_os_error(),
        message: format!(
            "{source}: the node's flash could not write back something of it, and nobody knows what is left"
        ),
        advice: "write it as a new file, or have it drained as it is (`cp -p FILE NEW && mv NEW FILE`); look at the \
                 node's flash (dmesg)"
            .to_owned(),
    }
}

fn trouble(path: &Path, fault: &Fault) -> Trouble {
    let failure = fault.failure(Direction::Out);
    let advice = match (fault.side, failure.errno) {
        (Side::Buffer, _) => {
            "look at the file's permissions and at the node's flash (dmesg); it is tried again".to_owned()
        }
        (Side::Pfs, _) => failure.advice,
    };
    Trouble { path: path.display().to_string(), errno: failure.errno, message: failure.message, advice }
}

/// Whether the file was not changed for a while.
fn is_quiet(top: &Top, source: &Path, seen: &Seen) -> bool {
    if !seen.generation.is_ahead() {
        return seen.generation.distance() >= QUIET;
    }
    // The clock was set back: it does not say how long ago that was.
    std::thread::sleep(QUIET);
    top.look(source).is_ok_and(|later| later.generation == seen.generation)
}

pub(crate) fn local_trouble(path: &Path, source: &Path, errno: Errno) -> Trouble {
    let source = source.display();
    let (message, advice) = match errno {
        Errno::STALE => (
            format!("look at {source}: the folder that is drained is not there any more"),
            "move the folder back, or mount its file system again, at the path it had; it is tried again",
        ),
        _ => (
            format!("look at {source}: {}", std::io::Error::from(errno)),
            "look at the file's permissions and at the node's flash (dmesg); it is tried again",
        ),
    };
    Trouble {
        path: path.display().to_string(),
        errno: errno.raw_os_error(),
        message,
        advice: advice.to_owned(),
    }
}
