//! Calls that come too early, too late, or for nobody.

use wire::control::ErrorCode;

use super::*;

#[tokio::test]
async fn an_unknown_token_is_told_in_the_words_that_slurm_looks_for() {
    let it = Fixture::new();
    let error = it.app.teardown(&Token::literal("99"), Teardown::default()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NoSuchSession);
    assert!(error.message.contains("token not found"));
}

#[tokio::test]
async fn a_call_out_of_order_is_refused_and_is_no_failure_of_the_session() {
    let it = Fixture::new();
    it.ready().await;
    for (request, word) in [(pre_run(), "data_in"), (data_out(), "tear it down")] {
        let error = it.run(request).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::WrongPhase);
        assert!(error.advice.contains(word), "{error}");
    }
    it.run(Request::DataIn).await.unwrap();
    it.run(pre_run()).await.unwrap();
    let error = it.run(data_out()).await.unwrap_err();
    assert!(error.advice.contains("post_run"), "{error}");
    assert_eq!(it.status().await.failed, None);
}

#[tokio::test]
async fn a_token_can_be_used_again_after_its_teardown() {
    let it = Fixture::new();
    it.unmounted().await;
    it.run(Request::Teardown(Teardown { hurry: true })).await.unwrap();
    assert_eq!(it.run(Request::DataIn).await.unwrap_err().code, ErrorCode::Released);
    it.ready().await;
    let status = it.status().await;
    assert_eq!((status.phase, status.instance.unwrap().id.as_str()), (Phase::Ready, "i2"));
    assert!(status.timings_ms.len() == 1 && status.activations.is_empty());
}

#[tokio::test]
async fn a_mounted_session_keeps_the_services_and_nothing_else_does() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    it.run(pre_run()).await.unwrap();
    assert!(it.app.shutdown().await.unwrap().busy.unwrap().contains("/dir/mnt/7/striped"));
    assert!(!it.site.world().stopped);
    it.run(post_run()).await.unwrap();
    assert_eq!(it.app.shutdown().await.unwrap().busy, None);
    assert!(it.site.world().stopped);
    assert_eq!(it.run(data_out()).await.unwrap_err().code, ErrorCode::Stopping);
}

#[tokio::test]
async fn sessions_survive_a_restart_of_control_and_those_torn_down_are_not_listed() {
    let it = Fixture::new();
    it.unmounted().await;
    let before = it.status().await;
    let it = it.restart();
    let living = it.app.database.transact(sessions::living).await.unwrap();
    assert_eq!(living.len(), 1);
    let after = it.status().await;
    assert_eq!(
        (after.phase, after.stages, after.timings_ms),
        (before.phase, before.stages, before.timings_ms)
    );
    it.run(Request::Teardown(Teardown { hurry: true })).await.unwrap();
    assert!(it.app.database.transact(sessions::living).await.unwrap().is_empty());
}
