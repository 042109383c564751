//! Files of a buffer of which storage nodes have lost something: they give bytes, and nobody knows whether they are
//! what was written. Either their checksums were lost, or writes that no fsync had confirmed, of which no program was
//! told. No copy of such a file is called verified.
//!
//! **Invariant:** of a stage-out that is complete, no file was known to be such a one, neither before nor after.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use model::phase::Direction;
use model::{FragmentIndex, Ino, NodeName};
use wire::control::{ApiError, Blame, ErrorCode};
use wire::data::message::{EVERYTHING, NAMES};

use crate::fault::{Cause, Fault, Tried};
use crate::lost::{Lost, What};
use crate::tree::{Found, Source};

/// Those that were known when the run began.
#[derive(Default)]
pub(crate) struct Unverified(OnceLock<Known>);

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
        let _first = self.0.set(known);
        Ok(())
    }

    /// Asks again when all is copied. Those that are new may be among what was copied; of the others nothing was.
    ///
    /// # Errors
    /// There are some; it cannot be asked.
    pub(crate) fn end(&self, source: &dyn Source, direction: Direction) -> Result<(), ApiError> {
        let Some(known) = self.0.get() else { return Ok(()) };
        let now = Known { lost: ask(source, direction)?, nodes: known.nodes.clone() };
        now.check_any("what is copied may lack something")?;
        let mut new = now.lost.iter().filter(|(ino, _)| !known.lost.contains_key(ino));
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
        self.0.get().is_some_and(|known| known.lost.contains_key(&source.attr.ino))
    }

    /// The same as a fault.
    pub(crate) fn check(&self, tree: &dyn Source, source: &Found) -> Result<(), Fault> {
        let Some(known) = self.0.get() else { return Ok(()) };
        let Some(lost) = known.lost.get(&source.attr.ino) else { return Ok(()) };
        let node = known.node(lost.fragment);
        let cause = match lost.what {
            What::Checksums => Cause::Unverified { node },
            What::Writes { since } => Cause::LostWrites { node, since: time(since) },
        };
        Err(Fault::new(tree, &source.path, "stage", cause))
    }
}

impl Known {
    fn node(&self, fragment: FragmentIndex) -> NodeName {
        self.nodes.get(fragment.place()).cloned().unwrap_or_else(|| NodeName::unchecked(fragment.to_string()))
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
