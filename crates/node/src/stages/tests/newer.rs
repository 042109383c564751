//! Stages of which a newer Forebay has written.

use super::*;

#[tokio::test]
async fn a_stage_whose_specification_a_newer_forebay_wrote_is_neither_run_again_nor_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("failed")).await.unwrap();
    until(&stages, ended).await;
    stages.shutdown().await;
    let file = dir.path().join("stages/3.0/spec.json");
    let newer = disk::format::encode(&spec("failed"), 2).unwrap();
    std::fs::write(&file, &newer).unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    for answer in [stages.retry(spec("failed")).await, stages.create(spec("failed")).await] {
        let refused = answer.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotTakenUp);
        assert!(refused.message.contains("spec.json: it has format 2"), "{}", refused.message);
        assert!(refused.advice.contains("install the Forebay that wrote it"), "{}", refused.advice);
    }
    assert_eq!(std::fs::read(&file).unwrap(), newer);
    // The newer Forebay was there again: the stage is run, and not its old end shown.
    kept::write(&spec("failed"), file.parent().unwrap()).unwrap();
    assert_eq!(stages.retry(spec("failed")).await.unwrap().state, StageState::default());
    until(&stages, ended).await;
}
