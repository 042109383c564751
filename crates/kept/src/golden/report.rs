//! How a stage ended.

use model::NodeName;
use model::phase::{Direction, StageKind, StageState};
use serde_json::{Value, json};
use wire::control::{FileFailure, Remark, Side, StageNotes, StageProgress, StageStatus, Stall};

use super::{assert_kept, error, with};
use crate::from_text;

fn progress() -> (StageProgress, Value) {
    let progress = StageProgress {
        entries_total: 1,
        entries_done: 2,
        bytes_total: 3,
        bytes_done: 4,
        bytes_verified: 5,
        bytes_moved: 6,
        bytes_to_verify: 7,
        eta_ms: Some(8),
        entries_failed: 9,
        sources_missing: 10,
        planned: true,
    };
    let text = json!({
        "entries_total": 1, "entries_done": 2, "bytes_total": 3, "bytes_done": 4, "bytes_verified": 5,
        "bytes_moved": 6, "bytes_to_verify": 7, "eta_ms": 8, "entries_failed": 9, "sources_missing": 10,
        "planned": true
    });
    (progress, text)
}

fn notes() -> (StageNotes, Value) {
    let stall = Stall { side: Side::Pfs, path: "p".into(), operation: "write".into(), for_ms: 1 };
    let notes = StageNotes {
        paused: true,
        stalled: Some(stall),
        remarks: vec![Remark { path: "p".into(), text: "t".into() }],
        remarks_total: 2,
        helpers: vec![(NodeName::literal("n1"), 3)],
    };
    let text = json!({
        "paused": true, "stalled": {"side": "pfs", "path": "p", "operation": "write", "for_ms": 1},
        "remarks": [{"path": "p", "text": "t"}], "remarks_total": 2, "helpers": [["n1", 3]]
    });
    (notes, text)
}

fn failure() -> (FileFailure, Value) {
    let failure = FileFailure {
        path: "p".into(),
        side: Side::Buffer,
        operation: "read".into(),
        errno: 5,
        message: "m".into(),
        advice: "a".into(),
    };
    let text = json!({
        "path": "p", "side": "buffer", "operation": "read", "errno": 5, "message": "m", "advice": "a"
    });
    (failure, text)
}

#[test]
fn the_report_of_a_stage_has_the_text_that_it_always_had() {
    let (progress, progress_text) = progress();
    let (error, error_text) = error();
    let (notes, notes_text) = notes();
    let (failure, failure_text) = failure();
    let report = StageStatus {
        id: "3.0".into(),
        direction: Direction::In,
        kind: StageKind::Directory,
        source: "s".into(),
        destination: "d".into(),
        state: StageState::Failed,
        progress,
        elapsed_ms: 11,
        failures: vec![failure],
        error: Some(error),
        notes,
    };
    let text = json!({
        "id": "3.0", "direction": "in", "kind": "directory", "source": "s", "destination": "d", "state": "failed",
        "progress": progress_text, "elapsed_ms": 11, "failures": [failure_text], "error": error_text,
        "notes": notes_text
    });
    assert_kept(&report, &text);
    let later =
        [("bytes_moved", None), ("bytes_to_verify", None), ("eta_ms", None), ("sources_missing", None)];
    let first = with(&text, &[("notes", None), ("progress", Some(with(&text["progress"], &later)))]);
    let read: StageStatus = from_text(first.to_string().as_bytes()).unwrap();
    let progress =
        StageProgress { bytes_moved: 0, bytes_to_verify: 0, eta_ms: None, sources_missing: 0, ..progress };
    assert_eq!(read, StageStatus { notes: StageNotes::default(), progress, ..report });
}
