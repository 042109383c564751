//! Stages that fail, hang, or are lost, and what becomes of the data.

use wire::control::ErrorCode;

use super::*;

/// Runs `request` until the node was asked `call`, and leaves it running.
async fn reach(it: &Fixture, request: Request, call: &str) -> tokio::task::JoinHandle<Result<(), ApiError>> {
    let app = Arc::clone(&it.app);
    let running = tokio::spawn(async move { app.run(&token(), request).await });
    while it.site.world().count(call) == 0 {
        tokio::task::yield_now().await;
    }
    running
}

#[tokio::test]
async fn a_failed_stage_in_names_the_file_and_keeps_the_rest_from_starting() {
    let it = Fixture::new();
    it.ready().await;
    it.site.world().failing.insert("/pfs/a".into());
    let error = it.run(Request::DataIn).await.unwrap_err();
    assert_eq!(
        error.message,
        "stage_in of /pfs/a: 1 of 3 entries failed; the first: create /pfs/a: Permission denied"
    );
    assert_eq!(error.blame, wire::control::Blame::User);
    assert_eq!(it.site.world().count("start_stage 7.1"), 0);
    assert_eq!(it.run(pre_run()).await.unwrap_err().code, ErrorCode::WrongPhase);
    it.site.world().failing.clear();
    it.run(Request::DataIn).await.unwrap();
    assert_eq!(it.status().await.phase, Phase::StagedIn);
}

#[tokio::test]
async fn a_failed_stage_out_keeps_the_data_until_a_retry_succeeds() {
    let it = Fixture::new();
    it.unmounted().await;
    it.site.world().failing.insert("$DW_JOB_STRIPED/x".into());
    let error = it.run(data_out()).await.unwrap_err();
    assert!(error.advice.contains("forebay stage retry 7"), "{error}");
    let states: Vec<_> = it.status().await.stages[2..].iter().map(|stage| stage.state).collect();
    assert_eq!(states, [StageState::Failed, StageState::Complete], "the others are saved all the same");
    let kept = it.app.teardown(&token(), Teardown::default()).await.unwrap().kept.unwrap();
    assert!(kept.contains("$DW_JOB_STRIPED/x") && kept.contains("Permission denied"), "{kept}");
    assert_eq!(it.site.world().fragments.len(), 2);
    assert_eq!(it.status().await.kept, Some(kept));
    it.site.world().failing.clear();
    it.run(data_out()).await.unwrap();
    assert_eq!(it.site.world().count("start_stage 7.3"), 1, "what was complete is not copied again");
    assert_eq!(it.status().await.kept, None);
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_job_that_ended_without_stage_out_is_kept_unless_in_a_hurry() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    it.run(pre_run()).await.unwrap();
    let kept = it.app.teardown(&token(), Teardown::default()).await.unwrap().kept;
    assert!(kept.unwrap().contains("it was not tried"));
    let status = it.status().await;
    assert_eq!(status.phase, Phase::Unmounted, "unmounted, so that data_out can be called");
    assert_eq!(it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_job_that_never_ran_owes_nothing() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_cancelled_stage_in_is_stopped_at_the_node_and_goes_on_when_called_again() {
    let it = Fixture::new();
    it.ready().await;
    it.site.world().hanging.insert("/pfs/a".into());
    let running = reach(&it, Request::DataIn, "start_stage 7.0").await;
    assert_eq!(it.status().await.busy, Some(Function::DataIn));
    it.app.cancel(&token()).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    let status = it.status().await;
    assert_eq!((status.busy, status.stages[0].state), (None, StageState::Failed));
    assert!(it.site.world().stages.is_empty());
    it.site.world().hanging.clear();
    it.run(Request::DataIn).await.unwrap();
}

#[tokio::test]
async fn cancel_also_stops_what_an_earlier_life_of_control_started() {
    let it = Fixture::new();
    it.ready().await;
    it.site.world().hanging.insert("/pfs/a".into());
    let _running = reach(&it, Request::DataIn, "stage 7.0").await;
    {
        // Two steps a call: the earlier life dies at its next one, or it would start again what the node has lost.
        let mut world = it.site.world();
        world.die_at = Some(2 * world.calls.len() + 1);
    }
    it.site.died.notified().await;
    let next = it.restart();
    next.app.cancel(&token()).await.unwrap();
    assert!(it.site.world().stages.is_empty());
}

#[tokio::test]
async fn a_hurried_teardown_does_not_wait_for_a_stage_out() {
    let it = Fixture::new();
    it.unmounted().await;
    it.site.world().hanging.insert("$DW_JOB_STRIPED/x".into());
    let running = reach(&it, data_out(), "start_stage 7.2").await;
    assert_eq!(it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap().kept, None);
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_stage_that_the_node_lost_is_started_again() {
    let it = Fixture::new();
    it.ready().await;
    it.site.world().hanging.insert("/pfs/a".into());
    let running = reach(&it, Request::DataIn, "stage 7.0").await;
    {
        let mut world = it.site.world();
        world.hanging.clear();
        world.stages.clear();
    }
    running.await.unwrap().unwrap();
    assert_eq!(it.site.world().count("start_stage 7.0"), 2);
}

#[tokio::test]
async fn what_signs_the_tickets_of_stages_never_leaves_control() {
    let it = Fixture::new();
    it.ready().await;
    let find = |tx: &rusqlite::Transaction<'_>| crate::state::instances::find(tx, &token());
    let stage_key = it.app.database.transact(find).await.unwrap().unwrap().stage_key;
    let verifier = wire::ticket::verifier(&wire::data::hello::Key::from_hex(&stage_key).unwrap());
    for fragment in it.site.world().fragments.values() {
        let told = serde_json::to_string(fragment).unwrap();
        assert!(!told.contains(&stage_key) && told.contains(&verifier), "{told}");
    }
}
