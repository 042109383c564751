//! How a stage ended, and why something failed.

use model::NodeName;
use model::phase::{Direction, StageKind, StageState};
use wire::control::{
    ApiError, Blame, ErrorCode, FileFailure, Remark, Side, StageNotes, StageProgress, StageStatus, Stall,
};

use crate::OnDisk;

form! {
    struct ReportForm of StageStatus {
        id: String,
        direction: Direction,
        kind: StageKind,
        source: String,
        destination: String,
        state: StageState,
        progress: StageProgress,
        elapsed_ms: u64,
        failures: Vec<FileFailure>,
        error: Option<ApiError>,
        #[serde(default)]
        notes: StageNotes,
    }
}

form! {
    struct ProgressForm of StageProgress {
        entries_total: u64,
        entries_done: u64,
        bytes_total: u64,
        bytes_done: u64,
        bytes_verified: u64,
        #[serde(default)]
        bytes_moved: u64,
        #[serde(default)]
        bytes_to_verify: u64,
        #[serde(default)]
        eta_ms: Option<u64>,
        entries_failed: u64,
        #[serde(default)]
        sources_missing: u64,
        planned: bool,
    }
}

form! {
    #[derive(Default)]
    #[serde(default)]
    struct NotesForm of StageNotes {
        paused: bool,
        stalled: Option<Stall>,
        remarks: Vec<Remark>,
        remarks_total: u64,
        helpers: Vec<(NodeName, u64)>,
    }
}

form! {
    struct RemarkForm of Remark {
        path: String,
        text: String,
    }
}

form! {
    struct StallForm of Stall {
        side: Side,
        path: String,
        operation: String,
        for_ms: u64,
    }
}

form! {
    struct FailureForm of FileFailure {
        path: String,
        side: Side,
        operation: String,
        errno: i32,
        message: String,
        advice: String,
    }
}

form! {
    #[serde(rename_all = "snake_case")]
    enum SideForm of Side {
        Pfs,
        Buffer,
    }
}

form! {
    struct ErrorForm of ApiError {
        code: ErrorCode,
        blame: Blame,
        message: String,
        advice: String,
    }
}

form! {
    #[serde(rename_all = "snake_case")]
    enum BlameForm of Blame {
        User,
        Site,
        Forebay,
    }
}

impl OnDisk for ErrorCode {
    type Form = String;

    fn to_form(&self) -> String {
        self.as_str().to_owned()
    }

    fn from_form(name: String) -> ErrorCode {
        let Ok(code) = name.parse();
        code
    }
}
