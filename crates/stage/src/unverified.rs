//! Files of a buffer whose checksums were lost: a storage node gives their bytes, and nobody knows whether they are
//! what was written. No copy of such a file is called verified.
//!
//! **Invariant:** of a stage-out that is complete, no file was known to be such a one, neither before nor after.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use model::phase::Direction;
use model::{FragmentIndex, Ino, NodeName};
use wire::control::{ApiError, Blame, ErrorCode};

use crate::fault::{Cause, Fault, Tried};
use crate::tree::{Found, Source};

/// Those that were known when the run began.
#[derive(Default)]
pub(crate) struct Unverified(OnceLock<Known>);

#[derive(Default)]
struct Known {
    fragments: HashMap<Ino, FragmentIndex>,
    /// The nodes of the fragments.
    nodes: Vec<NodeName>,
}

impl Unverified {
    /// Asks which there are, before anything is copied `direction` from this source; these nodes have its parts.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(crate) fn begin(
        &self,
        source: &dyn Source,
        direction: Direction,
        nodes: Vec<NodeName>,
    ) -> Result<(), ApiError> {
        let _first = self.0.set(Known { fragments: ask(source, direction)?, nodes });
        Ok(())
    }

    /// Asks again when all is copied. Those that are new may be among what was copied.
    ///
    /// # Errors
    /// There are some; it cannot be asked.
    pub(crate) fn end(&self, source: &dyn Source, direction: Direction) -> Result<(), ApiError> {
        let Some(known) = self.0.get() else { return Ok(()) };
        let now = ask(source, direction)?;
        let mut new = now.iter().filter(|(ino, _)| !known.fragments.contains_key(ino));
        let Some((_, fragment)) = new.next() else { return Ok(()) };
        Err(ApiError {
            code: ErrorCode::StageUnverified,
            blame: Blame::Site,
            message: format!(
                "checksums of {} files were lost while the stage copied, of one on node {}: nobody knows whether what \
                 was copied of them is what was written",
                new.count() + 1,
                known.node(*fragment),
            ),
            advice: "retry the stage: it names those of them that are in its source".to_owned(),
        })
    }

    /// Whether this is one.
    pub(crate) fn has(&self, source: &Found) -> bool {
        self.0.get().is_some_and(|known| known.fragments.contains_key(&source.attr.ino))
    }

    /// The same as a fault.
    pub(crate) fn check(&self, tree: &dyn Source, source: &Found) -> Result<(), Fault> {
        let Some(known) = self.0.get() else { return Ok(()) };
        let Some(fragment) = known.fragments.get(&source.attr.ino) else { return Ok(()) };
        let cause = Cause::Unverified { node: known.node(*fragment) };
        Err(Fault::new(tree, &source.path, "stage", cause))
    }
}

impl Known {
    fn node(&self, fragment: FragmentIndex) -> NodeName {
        self.nodes.get(fragment.place()).cloned().unwrap_or_else(|| NodeName::unchecked(fragment.to_string()))
    }
}

fn ask(source: &dyn Source, direction: Direction) -> Result<HashMap<Ino, FragmentIndex>, ApiError> {
    if direction == Direction::In {
        return Ok(HashMap::new());
    }
    let asked = source.unverified().tried(source, Path::new(""), "ask for lost checksums below");
    asked.map_err(|fault| fault.stage_error(direction))
}
