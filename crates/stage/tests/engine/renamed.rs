//! What becomes of a stage-out whose source has lost its name since it was asked for.

use model::phase::{Direction, StageKind};
use wire::node::StageSpec;

use crate::worker::Work;

#[test]
fn a_file_that_was_removed_after_it_was_asked_for_is_said_to_be() {
    let work = Work::new(1, 1 << 20);
    let spec = StageSpec { kind: StageKind::File, ..work.spec("1.0", Direction::Out, "out", "results.h5") };
    let status = work.run(&StageSpec { source_ino: Some(4711), ..spec });
    let error = status.error.unwrap();
    assert_eq!(error.code, wire::node::STAGE_SOURCE_REMOVED);
    assert!(error.message.contains("results.h5: it was removed after the stage was asked for"), "{error}");
    assert_eq!(status.failures.iter().map(|failure| failure.errno).collect::<Vec<_>>(), [2]);
}
