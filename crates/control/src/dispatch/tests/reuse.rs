//! Tokens that a workload manager uses again, and sessions that it is to forget.

use wire::control::ErrorCode;

use super::hosts::{fixture, job, on};
use super::*;
use crate::memory_site::ANOTHERS;

const JOB: &str = "#!/bin/sh\n\
    #DW jobdw type=scratch access_mode=striped capacity=1GiB\n\
    #DW stage_out type=file source=$DW_JOB_STRIPED/x destination=/pfs/x\n";

async fn mounted(it: &Fixture) {
    it.setup(job(JOB)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
}

async fn tokens(it: &Fixture) -> Vec<Token> {
    let living = it.app.database.transact(sessions::living).await.unwrap();
    living.into_iter().map(|session| session.token).collect()
}

#[tokio::test]
async fn what_is_owed_at_teardown_is_kept_under_another_token_and_the_manager_may_forget() {
    let it = fixture();
    mounted(&it).await;
    it.site.world().failing.insert("$DW_JOB_STRIPED/x".into());
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap_err();
    let reply = it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert_eq!(reply.renamed.as_ref().map(Token::as_str), Some("7-kept-1"));
    assert!(reply.kept.unwrap().contains("$DW_JOB_STRIPED/x"));
    let gone = it.app.teardown(&token(), Teardown::default()).await.unwrap_err();
    assert!(gone.message.contains("token not found"));
    assert_eq!(it.site.world().fragments.len(), 1);

    let again = it.app.teardown(&Token::literal("7-kept-1"), Teardown::default()).await.unwrap();
    assert_eq!((again.renamed, again.kept.is_some()), (None, true), "it keeps its token and its data");
    it.site.world().failing.clear();
    it.app.run(&Token::literal("7-kept-1"), data_out()).await.unwrap();
    it.app.teardown(&Token::literal("7-kept-1"), Teardown::default()).await.unwrap();
    assert!(it.is_empty() && tokens(&it).await.is_empty());
}

#[tokio::test]
async fn a_second_session_that_is_kept_gets_the_next_number() {
    let it = fixture();
    for expected in ["7-kept-1", "7-kept-2"] {
        mounted(&it).await;
        let reply = it.app.teardown(&token(), Teardown::default()).await.unwrap();
        assert_eq!(reply.renamed.as_ref().map(Token::as_str), Some(expected));
    }
    assert_eq!(it.site.world().fragments.len(), 2);
}

#[tokio::test]
async fn a_hurried_teardown_keeps_nothing() {
    let it = fixture();
    mounted(&it).await;
    let reply = it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap();
    assert_eq!((reply.kept, reply.renamed), (None, None));
    assert!(it.is_empty());
}

#[tokio::test]
async fn another_owner_or_script_under_a_token_quarantines_the_old_session() {
    let it = fixture();
    mounted(&it).await;
    let other = Setup { owner: Owner { uid: 2002, gid: 2002 }, ..job(JOB) };
    it.setup(other).await.unwrap();
    assert_eq!(tokens(&it).await, ["7-old-1", "7"]);
    let renamed = it.status_of(&Token::literal("7-old-1")).await.unwrap();
    assert_eq!((renamed.owner.uid, renamed.quarantined.as_ref().map(Token::as_str)), (1000, Some("7")));
    assert!(renamed.kept.is_some(), "its job was not over: a person decides");
    assert_eq!(it.status().await.owner.uid, 2002);
    assert!(it.site.world().mounts.is_empty());
    assert_eq!(it.site.world().fragments.len(), 2);
}

#[tokio::test]
async fn a_session_that_owes_nothing_makes_room_by_itself() {
    let it = fixture();
    it.setup(job(JOB)).await.unwrap();
    it.setup(job("#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=2GiB\n")).await.unwrap();
    assert_eq!(tokens(&it).await, ["7"]);
    let instance = it.status().await.instance.unwrap();
    assert_eq!((instance.id.as_str(), instance.capacity_bytes), ("i2", 2 << 30));
}

/// The stage-out of a job that has ended, under way, which does not end by itself.
async fn stage_out_that_hangs(it: &Fixture) -> tokio::task::JoinHandle<Result<(), ApiError>> {
    mounted(it).await;
    it.run(post_run()).await.unwrap();
    it.site.world().hanging.insert("$DW_JOB_STRIPED/x".into());
    let app = Arc::clone(&it.app);
    let running = tokio::spawn(async move { app.run(&token(), data_out()).await });
    while it.site.world().count("start_stage 7.0") == 0 {
        tokio::task::yield_now().await;
    }
    running
}

#[tokio::test]
async fn a_stage_out_that_ran_when_its_token_was_used_again_is_finished_by_control() {
    let it = fixture();
    let running = stage_out_that_hangs(&it).await;
    it.site.world().hanging.clear();
    // The manager lost the job's state and runs the very same job again.
    it.setup(job(JOB)).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    while tokens(&it).await != ["7"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(it.status().await.phase, Phase::Ready);
    assert_eq!(it.site.world().count("retry_stage 7.0"), 1, "the old one's, again");
    assert_eq!(it.site.world().fragments.len(), 1, "the new one's");
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap();
}

#[tokio::test]
async fn a_stage_out_whose_manager_forgot_the_job_is_finished_by_control() {
    let it = fixture();
    let running = stage_out_that_hangs(&it).await;
    it.site.world().hanging.clear();
    let reply = it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert_eq!(
        reply.renamed.as_ref().map(Token::as_str),
        Some("7-kept-1"),
        "it does not wait for the stage-out"
    );
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    while !tokens(&it).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(it.site.world().count("retry_stage 7.0"), 1);
    assert!(it.is_empty());
}

#[tokio::test]
async fn what_control_is_to_finish_by_itself_it_finishes_in_its_next_life() {
    let it = fixture();
    let running = stage_out_that_hangs(&it).await;
    it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    // This life does not get to its end.
    it.site.world().failing.insert("$DW_JOB_STRIPED/x".into());
    it.site.world().hanging.clear();
    let failed = async || it.status_of(&Token::literal("7-kept-1")).await.unwrap().failed;
    while failed().await.is_none_or(|(_, error)| error.code == ErrorCode::Cancelled) {
        tokio::task::yield_now().await;
    }
    it.site.world().failing.clear();
    let next = it.restart();
    crate::service::resume(Arc::clone(&next.app)).await;
    for _ in 0..2_000 {
        if tokens(&next).await.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(next.is_empty(), "it is forgotten");
}

#[tokio::test]
async fn the_same_setup_before_the_job_runs_is_the_same_session() {
    let it = fixture();
    it.setup(job(JOB)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    let calls = it.site.world().calls.len();
    it.setup(job(JOB)).await.unwrap();
    assert_eq!(it.site.world().calls.len(), calls);
    assert_eq!(it.status().await.phase, Phase::StagedIn);
}

#[tokio::test]
async fn a_database_that_was_made_anew_leaves_the_buffers_alone_whose_ids_it_gives_out_again() {
    let before = Fixture::new();
    before.ready().await;
    let site = before.site.clone();
    for fragment in site.world().fragments.values_mut() {
        (fragment.key, fragment.stage_verifier) = (ANOTHERS.into(), ANOTHERS.into());
    }
    let theirs = site.world().fragments.clone();
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), site);
    it.ready().await;
    assert_eq!(it.status().await.instance.unwrap().id, "i2");
    it.run(Request::DataIn).await.unwrap();
    it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap();
    assert_eq!(it.site.world().fragments, theirs);
}
