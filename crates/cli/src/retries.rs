//! Stages that failed: why, and the command that does them again.

use std::path::Path;

use model::phase::{Direction, StageKind, StageState};
use wire::control::StageStatus;

use crate::output::Output;
use crate::render;

/// Why a buffer is kept whose stage-out failed.
pub const NOT_OUT: &str = "its stage-out is not complete";

/// Why a buffer is kept whose stage-out is complete.
pub const ASKED_FOR: &str = "--keep asked for it";

/// Why a stage failed, with what to do about that; `None` where it did not.
pub fn why(stage: &StageStatus) -> Option<String> {
    let whole = stage.error.as_ref().map(ToString::to_string);
    let first = || stage.failures.first().map(|failure| format!("{}; {}", failure.message, failure.advice));
    whole.or_else(first).filter(|_| stage.state == StageState::Failed)
}

/// The command that does again what failed of a stage on demand; those of a script are done again together.
pub fn command(stage: &StageStatus, output: &Output) -> Option<String> {
    let (token, _) = stage.id.rsplit_once('.')?;
    let path = match stage.direction {
        Direction::In => &stage.destination,
        Direction::Out => &stage.source,
    };
    // Where the buffer is not mounted, a folder is told by its slash.
    let slash = if stage.kind == StageKind::Directory && !path.ends_with('/') { "/" } else { "" };
    (stage.is_on_demand() && stage.state == StageState::Failed).then(|| {
        let path = render::word(Path::new(&format!("{path}{slash}")));
        output.command(&format!("stage retry {token} --path {path}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_stage_on_demand_that_failed_is_done_again_by_the_path_in_its_buffer() {
        let output = Output::new(false, Some("/state".into()));
        let failed = fixtures::failed_stage_out();
        assert_eq!(command(&failed, &output), None, "the script's are retried together");
        let failed = StageStatus { id: "3.d7".into(), ..failed };
        assert_eq!(
            command(&failed, &output).unwrap(),
            "forebay stage retry 3 --path '$DW_JOB_STRIPED/results/' --dir /state"
        );
        assert_eq!(
            why(&failed).unwrap(),
            "write /pfs/results/stars.h5: No space left on device; make room there"
        );
        assert_eq!(why(&fixtures::stage_in()), None);
    }
}
