//! What a job that failed did not come to make: there is nothing to stage out, and nothing is lost.
//!
//! A source that is not there may also have another name by now. Of a job that did all it wanted it is owed, as the
//! buffer may be the only place that has it. One that failed before its last step would hold its buffer for ever.

use model::phase::StageState;
use wire::control::{Remark, StageProgress, StageStatus};

const UNMADE: &str = "the job failed before it made this: there is nothing to stage out";

/// The end of a stage of a job that failed: complete where all that fails is that sources are not there. What it lacks
/// is remarked.
pub(super) fn forgiven(end: StageStatus) -> StageStatus {
    if !end.lacks_only_sources() {
        return end;
    }
    let mut notes = end.notes;
    notes.remarks_total += end.progress.sources_missing;
    let unmade =
        end.failures.into_iter().map(|failure| Remark { path: failure.path, text: UNMADE.to_owned() });
    for remark in unmade {
        tracing::info!(stage = end.id, source = remark.path, "not owed: {UNMADE}");
        notes.remarks.push(remark);
    }
    let progress =
        StageProgress { entries_total: end.progress.entries_done, entries_failed: 0, ..end.progress };
    StageStatus { state: StageState::Complete, progress, failures: Vec::new(), error: None, notes, ..end }
}

#[cfg(test)]
mod tests {
    use model::phase::StageKind;
    use wire::control::{FileFailure, Side};

    use super::*;
    use crate::state::transfers::Transfer;

    fn failed(progress: StageProgress) -> StageStatus {
        let transfer = Transfer::out(StageKind::List, "", "/pfs/list");
        let failure = FileFailure {
            path: "$DW_JOB_STRIPED/a".into(),
            side: Side::Buffer,
            operation: "look up source".into(),
            errno: 2,
            message: "look up source $DW_JOB_STRIPED/a: No such file or directory".into(),
            advice: "check the spelling".into(),
        };
        StageStatus { state: StageState::Failed, progress, failures: vec![failure], ..transfer.untouched() }
    }

    fn of_list(done: u64, failed: u64, missing: u64) -> StageProgress {
        let (entries_done, entries_failed, sources_missing) = (done, failed, missing);
        StageProgress {
            entries_total: 4,
            entries_done,
            entries_failed,
            sources_missing,
            ..Default::default()
        }
    }

    #[test]
    fn only_what_is_not_there_is_not_owed() {
        let end = forgiven(failed(of_list(1, 3, 3)));
        assert_eq!((end.state, end.progress.entries_total), (StageState::Complete, 1));
        assert_eq!((end.notes.remarks.len(), end.notes.remarks_total), (1, 3));
        for (why, progress) in [
            ("another one could not be written", of_list(1, 3, 2)),
            ("one was not tried", of_list(1, 2, 2)),
            ("it is not known why", of_list(1, 3, 0)),
        ] {
            assert_eq!(forgiven(failed(progress)).state, StageState::Failed, "{why}");
        }
    }
}
