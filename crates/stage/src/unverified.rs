//! Files of a buffer of which storage nodes have lost something: they give bytes, and nobody knows whether they are
//! what was written. Either their checksums were lost, or writes that no fsync had confirmed, of which no program was
//! told. No copy of such a file is called verified.
//!
//! **Invariant:** of a stage-out that is complete, no file was known to be such a one, neither before nor after, and
//! what each had was on the disks.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use client::LostByDisk;
use model::phase::Direction;
use model::{FragmentIndex, Ino, NodeName};
use wire::control::{ApiError, Blame, ErrorCode};
use wire::data::message::{EVERYTHING, NAMES};

use crate::fault::{Cause, Fault, Tried};
use crate::lost::{Lost, What};
use crate::tree::{Found, Source};

/// Those that are known.
#[derive(Default)]
pub(crate) struct Unverified {
    /// When the run began.
    begun: OnceLock<Known>,
    /// Since then: nothing was made of them.
    refused: Mutex<HashSet<Ino>>,
}

#[derive(Default)]
struct Known {
    lost: HashMap<Ino, Lost>,
    /// The nodes of the fragments.
    nodes: Vec<NodeName>,
}

impl Unverified {
    /// Asks which there are, before anything is copied `direction` from this source; these nodes have its parts.
    ///
    /// # Errors
    /// It cannot be asked; any file may be one.
    pub(crate) fn begin(
        &self,
        source: &dyn Source,
        direction: Direction,
        nodes: Vec<NodeName>,
    ) -> Result<(), ApiError> {
        let known = Known { lost: ask(source, direction)?, nodes };
        known.check_any("nothing is copied")?;
        let _first = self.begun.set(known);
        Ok(())
    }

    /// Asks again when all is copied. Those that are new may be among what was copied; of the others nothing was.
    ///
    /// # Errors
    /// There are some; it cannot be asked.
    pub(crate) fn end(&self, source: &dyn Source, direction: Direction) -> Result<(), ApiError> {
        let Some(known) = self.begun.get() else { return Ok(()) };
        let now = Known { lost: ask(source, direction)?, nodes: known.nodes.clone() };
        now.check_any("what is copied may lack something")?;
        let refused = self.refused.lock().expect("no thread panics with the lock");
        let is_new = |ino: &Ino| !known.lost.contains_key(ino) && !refused.contains(ino);
        let mut new = now.lost.iter().filter(|(ino, _)| is_new(ino));
        let Some((_, lost)) = new.next() else { return Ok(()) };
        let what = match lost.what {
            What::Checksums => "checksums",
            What::Writes { .. } => "writes that no fsync had confirmed",
        };
        Err(ApiError {
            code: ErrorCode::StageUnverified,
            blame: Blame::Site,
            message: format!(
                "{what} of {} files were lost while the stage copied, of one on node {}: nobody knows whether what was \
                 copied of them is what was written",
                new.count() + 1,
                known.node(lost.fragment),
            ),
            advice: "retry the stage: it names those of them that are in its source".to_owned(),
        })
    }

    /// Whether this is one.
    pub(crate) fn has(&self, source: &Found) -> bool {
        self.begun.get().is_some_and(|known| known.lost.contains_key(&source.attr.ino))
    }

    /// The same as a fault.
    pub(crate) fn check(&self, tree: &dyn Source, source: &Found) -> Result<(), Fault> {
        let Some(known) = self.begun.get() else { return Ok(()) };
        let Some(lost) = known.lost.get(&source.attr.ino) else { return Ok(()) };
        Err(fault(tree, source, lost, known.node(lost.fragment)))
    }

    /// Has what these files hold on the disks before it is called copied: a disk that cannot write it back loses it
    /// without a word as long as nobody asks. Whether each may be copied, in order.
    pub(crate) fn flush(&self, tree: &dyn Source, files: &[&Found]) -> Vec<Result<(), Fault>> {
        match tree.flush(files) {
            Ok(lost) if lost.is_empty() => files.iter().map(|_| Ok(())).collect(),
            Ok(lost) => files.iter().map(|file| self.judge(tree, file, &lost)).collect(),
            Err(_) if files.len() > 1 => files.iter().flat_map(|file| self.flush(tree, &[*file])).collect(),
            Err(errno) => files.iter().map(|file| Err(errno).tried(tree, &file.path, "sync")).collect(),
        }
    }

    /// The same of one.
    pub(crate) fn flush_one(&self, tree: &dyn Source, file: &Found) -> Result<(), Fault> {
        self.flush(tree, &[file]).into_iter().collect()
    }

    /// A file that lost something may be copied where a session was told, and the home holds no loss of it that no
    /// program was told.
    fn judge(&self, tree: &dyn Source, file: &Found, lost: &[LostByDisk]) -> Result<(), Fault> {
        let Some(by_disk) = lost.iter().find(|lost| lost.ino == file.attr.ino) else { return Ok(()) };
        let known = tree.unverified().tried(tree, &file.path, "ask what was lost of")?;
        let untold = |fragment| Lost { fragment, what: What::Writes { since: now() } };
        let Some(lost) = known.get(&by_disk.ino).copied().or_else(|| by_disk.untold.map(untold)) else {
            return Ok(());
        };
        self.refused.lock().expect("no thread panics with the lock").insert(by_disk.ino);
        let nodes = self.begun.get().map_or(&[][..], |known| &known.nodes);
        Err(fault(tree, file, &lost, node(nodes, lost.fragment)))
    }
}

fn fault(tree: &dyn Source, file: &Found, lost: &Lost, node: NodeName) -> Fault {
    let cause = match lost.what {
        What::Checksums => Cause::Unverified { node },
        What::Writes { since } => Cause::LostWrites { node, since: time(since) },
    };
    Fault::new(tree, &file.path, "stage", cause)
}

fn node(nodes: &[NodeName], fragment: FragmentIndex) -> NodeName {
    nodes.get(fragment.place()).cloned().unwrap_or_else(|| NodeName::unchecked(fragment.to_string()))
}

impl Known {
    fn node(&self, fragment: FragmentIndex) -> NodeName {
        node(&self.nodes, fragment)
    }

    /// Where any file or name may be lost, the stage fails, and `so`.
    fn check_any(&self, so: &str) -> Result<(), ApiError> {
        let any = [(EVERYTHING, "writes to files"), (NAMES, "names or attributes")];
        let Some((Lost { fragment, what: What::Writes { since } }, what)) =
            any.iter().find_map(|(ino, what)| Some((self.lost.get(ino)?, what)))
        else {
            return Ok(());
        };
        Err(ApiError {
            code: ErrorCode::StageUnverified,
            blame: Blame::Site,
            message: format!(
                "{so}: node {} lost {what} that no fsync had confirmed, as by a power loss, nobody knows \
                 which, and no program was told (known since {})",
                self.node(*fragment),
                time(*since)
            ),
            advice: "write everything anew (run the job again), or look at what is there and take it as it is with \
                     `forebay fsck TOKEN --repair` (`forebay status` shows the token); then retry the stage"
                .to_owned(),
        })
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A time in words.
fn time(seconds: i64) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

fn ask(source: &dyn Source, direction: Direction) -> Result<HashMap<Ino, Lost>, ApiError> {
    if direction == Direction::In {
        return Ok(HashMap::new());
    }
    let asked = source.unverified().tried(source, Path::new(""), "ask what was lost below");
    asked.map_err(|fault| fault.stage_error(direction))
}
