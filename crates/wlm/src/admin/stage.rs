//! `dwcli stage`: the stages that a session's script asks for. Other transfers need programs that copy.

use model::phase::{Direction, StageKind, StageState};
use serde_json::json;
use wire::control::{SessionStatus, StageStatus};

use super::arguments::{OfSession, Stage};
use super::{AdminError, find};
use api::control::{Control, session_path};

pub(super) fn run(control: &Control, what: &Stage) -> Result<String, AdminError> {
    let call = |of: &OfSession, function: &str| -> Result<String, AdminError> {
        let token = find::session(control, of.session)?;
        let status: SessionStatus = control.post(&session_path(token.as_str(), function), &json!({}))?;
        Ok(table(of, &status))
    };
    match what {
        Stage::In(of) => call(of, "/data_in"),
        Stage::Out(of) => call(of, "/data_out"),
        Stage::Query(of) => {
            let token = find::session(control, of.session)?;
            let status: SessionStatus = control.get(&session_path(token.as_str(), ""))?;
            Ok(table(of, &status))
        }
    }
}

/// Old scripts read the eighth column, the files left, and expect `-` where there is nothing to stage.
fn table(of: &OfSession, status: &SessionStatus) -> String {
    let header = "stage state direction type source destination bytes files\n".to_owned();
    if status.stages.is_empty() {
        let configuration = of.configuration.map_or_else(|| "-".to_owned(), |id| id.to_string());
        return format!("{header}{configuration} - - - - - - -\n");
    }
    status.stages.iter().fold(header, |text, stage| text + &row(stage))
}

fn row(stage: &StageStatus) -> String {
    let done = stage.state == StageState::Complete;
    let progress = &stage.progress;
    let files = match (done, progress.planned) {
        (true, _) => "-".to_owned(),
        (false, true) => left(progress.entries_total, progress.entries_done).to_string(),
        (false, false) => "?".to_owned(),
    };
    format!(
        "{} {} {} {} {} {} {} {files}\n",
        stage.id,
        stage.state.word(),
        match stage.direction {
            Direction::In => "in",
            Direction::Out => "out",
        },
        match stage.kind {
            StageKind::File => "file",
            StageKind::Directory => "directory",
            StageKind::List => "list",
            StageKind::Any => "any",
        },
        stage.source,
        stage.destination,
        // Of large files not all is read back.
        left(progress.bytes_total, progress.bytes_done)
            .max(left(progress.bytes_to_verify, progress.bytes_verified)),
    )
}

fn left(total: u64, done: u64) -> u64 {
    total.saturating_sub(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::control::StageProgress;

    #[test]
    fn the_eighth_column_is_the_files_left() {
        let stage = |state, done| StageStatus {
            id: "7.0".into(),
            direction: Direction::Out,
            kind: StageKind::Directory,
            source: "$DW_JOB_STRIPED/out".into(),
            destination: "/pfs/out".into(),
            state,
            progress: StageProgress {
                entries_total: 5,
                entries_done: done,
                planned: true,
                ..Default::default()
            },
            ..StageStatus::default()
        };
        let eighth = |row: String| row.split_whitespace().nth(7).map(str::to_owned);
        assert_eq!(eighth(row(&stage(StageState::Active, 2))).as_deref(), Some("3"));
        assert_eq!(eighth(row(&stage(StageState::Complete, 5))).as_deref(), Some("-"));
    }
}
