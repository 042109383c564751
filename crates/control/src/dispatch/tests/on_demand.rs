//! Stages on demand: their states, their order, and what becomes of them when somebody dies or a job ends.

use model::phase::{Direction, StageKind};
use wire::control::{
    Change, ErrorCode, Place, StageChange, StageConcurrency, StageCounts, StageDue, StagePair, StageQuery,
    StageRequest, StageScope,
};

use super::*;
use crate::rights::Rights;
use crate::state::transfers::{self, Space, Transfer};
use crate::transfers::{asked, buffer, on_demand};

pub(super) const OWNER: Rights = Rights::Owner(1000);

pub(super) fn place() -> Place {
    Place::Mount { instance: "i1".into(), mountpoint: "/dir/mnt/7/striped".into() }
}

pub(super) fn out(files: &[&str], due: StageDue) -> StageRequest {
    let pair = |file: &&str| StagePair::new(*file, format!("/pfs/{file}"));
    StageRequest {
        place: place(),
        direction: Direction::Out,
        kind: StageKind::File,
        due,
        pairs: files.iter().map(pair).collect(),
    }
}

fn files(files: &[&str]) -> StageScope {
    StageScope::Files(files.iter().map(|file| (*file).to_owned()).collect())
}

/// `[complete, pending, deferred, failed]`
pub(super) fn numbers(counts: StageCounts) -> [u64; 4] {
    [counts.complete, counts.pending, counts.deferred, counts.failed]
}

impl Fixture {
    /// A job that runs, with its input.
    pub(super) async fn running() -> Fixture {
        let it = Fixture::new();
        it.ready().await;
        it.run(Request::DataIn).await.expect("data_in");
        it.run(pre_run()).await.expect("pre_run");
        it
    }

    async fn ask(&self, request: StageRequest) -> Vec<String> {
        asked::ask(&self.app, OWNER, request).await.expect("accepted").1.ids
    }

    async fn counts(&self, scope: StageScope, wait_ms: u64) -> [u64; 4] {
        let query = StageQuery { place: place(), scope, wait_ms, after: None };
        numbers(asked::counts(&self.app, OWNER, query).await.expect("the buffer is there"))
    }

    async fn change(&self, scope: StageScope, change: Change) -> [u64; 4] {
        let how = StageChange { place: place(), scope, change };
        numbers(asked::change(&self.app, OWNER, how).await.expect("the buffer is there").1)
    }

    pub(super) async fn until_active(&self, id: &str) {
        while self.site.world().count(&format!("stage {id}")) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_stage_is_seen_after_its_caller_and_control_have_died() {
    let it = Fixture::running().await;
    it.site.world().hanging.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a", "b"], StageDue::Now)).await;
    it.until_active("7.d5").await;
    assert_eq!(it.counts(files(&["a"]), 0).await, [0, 1, 0, 0]);
    let next = it.restart();
    {
        let mut world = next.site.world();
        world.hanging.clear();
        world.stages.clear();
    }
    on_demand::resume(&next.app).await.unwrap();
    assert_eq!(next.counts(files(&["a", "b"]), 20_000).await, [2, 0, 0, 0]);
    assert_eq!(next.counts(StageScope::All, 0).await, [2, 0, 0, 0]);
    assert_eq!(next.counts(files(&["c"]), 0).await, [0; 4]);
}

#[tokio::test]
async fn a_second_stage_of_a_file_follows_the_first() {
    let it = Fixture::running().await;
    it.site.world().hanging.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a"], StageDue::Now)).await;
    it.until_active("7.d5").await;
    assert_eq!(it.ask(out(&["a"], StageDue::Now)).await, ["7.d6"]);
    assert_eq!(
        it.ask(out(&["a"], StageDue::Now)).await,
        ["7.d6"],
        "one that waits will see all that is written"
    );
    let folder = StageRequest { kind: StageKind::Directory, ..out(&[""], StageDue::Now) };
    it.ask(folder).await;
    it.ask(out(&["b"], StageDue::Now)).await;
    tokio::task::yield_now().await;
    assert_eq!(it.site.world().count("start_stage"), 1 + 2, "the folder holds both files");
    {
        let mut world = it.site.world();
        world.hanging.clear();
        let status = world.stages.get_mut("7.d5").expect("it hangs");
        status.state = StageState::Complete;
    }
    assert_eq!(it.counts(files(&["a"]), 20_000).await, [1, 0, 0, 0]);
    it.counts(StageScope::All, 20_000).await;
    let starts: Vec<String> = {
        let world = it.site.world();
        world.calls.iter().filter(|call| call.starts_with("start_stage 7.d")).cloned().collect()
    };
    assert_eq!(
        starts,
        ["start_stage 7.d5", "start_stage 7.d6", "start_stage 7.d7", "start_stage 7.d8"],
        "in the order in which they were asked for"
    );
    assert!(it.site.world().stages.keys().all(|id| !id.contains(".d")), "nodes forget what has ended");
}

#[tokio::test]
async fn no_more_stages_run_at_once_than_the_buffer_allows() {
    let it = Fixture::running().await;
    let names = ["a", "b", "c", "d", "e", "f"];
    it.site.world().hanging.extend(names.iter().map(|name| format!("$DW_JOB_STRIPED/{name}")));
    buffer::set_concurrency(&it.app, OWNER, StageConcurrency { place: place(), concurrency: 2 })
        .await
        .unwrap();
    it.ask(out(&names, StageDue::Now)).await;
    it.until_all_active(&["7.d5", "7.d6"]).await;
    assert_eq!(it.site.world().count("start_stage 7.d"), 2);
    buffer::set_concurrency(&it.app, OWNER, StageConcurrency { place: place(), concurrency: 5 })
        .await
        .unwrap();
    it.until_all_active(&["7.d7", "7.d8", "7.d9"]).await;
    assert_eq!(it.site.world().count("start_stage 7.d"), 5);
    assert_eq!(it.change(StageScope::All, Change::Terminate).await, [0, 6, 0, 0]);
    assert_eq!(it.counts(StageScope::All, 0).await, [0; 4]);
    assert!(it.site.world().stages.keys().all(|id| !id.contains(".d")));
    assert_eq!(it.site.world().count("start_stage 7.d"), 5, "none took the place of one that was stopped");
}

#[tokio::test]
async fn what_waits_for_the_jobs_end_is_staged_out_then_unless_it_is_revoked() {
    let it = Fixture::running().await;
    it.ask(out(&["kept", "revoked", "activated"], StageDue::AtJobEnd)).await;
    assert_eq!(it.counts(StageScope::All, 0).await, [0, 0, 3, 0]);
    assert_eq!(it.change(files(&["revoked"]), Change::Revoke).await, [0, 0, 1, 0]);
    assert_eq!(it.change(files(&["revoked"]), Change::Revoke).await, [0; 4]);
    assert_eq!(it.change(files(&["activated"]), Change::Activate).await, [0, 0, 1, 0]);
    assert_eq!(it.counts(files(&["activated"]), 20_000).await, [1, 0, 0, 0]);
    it.run(post_run()).await.unwrap();
    assert_eq!(it.site.world().count("start_stage 7.d5"), 0);
    it.run(data_out()).await.unwrap();
    assert_eq!(it.site.world().count("start_stage 7.d5"), 1);
    assert_eq!(it.site.world().count("start_stage 7.d6"), 0);
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_stage_out_that_a_program_asked_for_is_owed_until_it_is_done() {
    let it = Fixture::running().await;
    it.site.world().failing.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a"], StageDue::Now)).await;
    assert_eq!(it.counts(files(&["a"]), 20_000).await, [0, 0, 0, 1]);
    let query = StageQuery { place: place(), scope: StageScope::All, wait_ms: 0, after: None };
    let failed = asked::failed(&it.app, OWNER, query).await.unwrap();
    assert_eq!((failed[0].path.as_str(), failed[0].errno), ("a", 13));
    it.run(post_run()).await.unwrap();
    assert_eq!(it.run(data_out()).await.unwrap_err().code, ErrorCode::StageFailed);
    let kept = it.app.teardown(&token(), Teardown::default()).await.unwrap().kept.unwrap();
    assert!(kept.contains("$DW_JOB_STRIPED/a to /pfs/a") && kept.contains("Permission denied"), "{kept}");
    it.site.world().failing.clear();
    it.run(data_out()).await.unwrap();
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_stage_that_failed_goes_on_with_its_journal_however_it_is_asked_for_again() {
    let it = Fixture::running().await;
    it.site.world().failing.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a"], StageDue::Now)).await;
    assert_eq!(it.counts(StageScope::All, 20_000).await, [0, 0, 0, 1]);
    assert!(it.site.world().stages.contains_key("7.d5"), "its node keeps what it has done");
    it.change(StageScope::All, Change::Retry).await;
    assert_eq!(it.counts(StageScope::All, 20_000).await, [0, 0, 0, 1]);
    assert_eq!(it.site.world().count("retry_stage 7.d5"), 1);
    it.site.world().failing.clear();
    assert_eq!(it.ask(out(&["a"], StageDue::Now)).await, ["7.d5"]);
    assert_eq!(it.counts(StageScope::All, 20_000).await, [1, 0, 0, 0]);
    assert_eq!(it.site.world().count("retry_stage 7.d5"), 2);
    assert!(!it.site.world().stages.contains_key("7.d5"), "and forgets it once it is complete");
}

#[tokio::test]
async fn a_stage_that_two_ask_for_again_runs_once() {
    let it = Fixture::running().await;
    let unfinished = || it.app.database.transact(|tx| transfers::unfinished_of(tx, &token(), 0));
    it.site.world().failing.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a"], StageDue::Now)).await;
    assert_eq!(it.counts(StageScope::All, 20_000).await, [0, 0, 0, 1]);
    let seen = unfinished().await.unwrap();
    it.site.world().failing.clear();
    it.site.world().hanging.insert("$DW_JOB_STRIPED/a".into());
    it.change(StageScope::All, Change::Retry).await;
    // The other has seen it fail, too.
    on_demand::set_waiting(&it.app, &seen).await.unwrap();
    assert_eq!(unfinished().await.unwrap()[0].state, StageState::Active, "it would be started beside itself");
}

#[tokio::test]
async fn a_stage_that_failed_and_is_given_up_is_forgotten_by_its_node() {
    let it = Fixture::running().await;
    it.site.world().failing.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a"], StageDue::Now)).await;
    assert_eq!(it.counts(StageScope::All, 20_000).await, [0, 0, 0, 1]);
    it.change(StageScope::All, Change::Terminate).await;
    assert!(it.site.world().stages.keys().all(|id| !id.contains(".d")));
}

#[tokio::test]
async fn a_cancelled_data_out_stops_what_programs_asked_for_and_keeps_it() {
    let it = Fixture::running().await;
    it.site.world().hanging.insert("$DW_JOB_STRIPED/a".into());
    it.ask(out(&["a"], StageDue::AtJobEnd)).await;
    it.run(post_run()).await.unwrap();
    let app = Arc::clone(&it.app);
    let running = tokio::spawn(async move { app.run(&token(), data_out()).await });
    it.until_active("7.d5").await;
    it.app.cancel(&token()).await.unwrap();
    assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    assert!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept.is_some());
    assert_eq!(it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn users_of_a_shared_buffer_do_not_see_or_change_each_others_stages() {
    let it = Fixture::running().await;
    let seen_by = |uid| Space { token: token(), access_mode: AccessMode::Striped, owner: Some(uid) };
    let of = |uid, pfs: &str| Transfer {
        owner: Owner { uid, gid: uid },
        ..Transfer::out(StageKind::File, "result", pfs)
    };
    let (first, second) = (of(1000, "/pfs/first"), of(1001, "/pfs/second"));
    let look = move |tx: &rusqlite::Transaction<'_>| {
        transfers::add(tx, &first)?;
        transfers::add(tx, &second)?;
        let seen = |uid| transfers::named(tx, &seen_by(uid), &StageScope::All, 0);
        Ok((seen(1000)?, seen(1001)?))
    };
    let (first, second) = it.app.database.transact(look).await.unwrap();
    assert_eq!(
        (first.len(), first[0].pfs_path.as_path(), first[0].owner.uid),
        (1, Path::new("/pfs/first"), 1000)
    );
    assert_eq!(
        (second.len(), second[0].pfs_path.as_path(), second[0].owner.uid),
        (1, Path::new("/pfs/second"), 1001)
    );
}

#[tokio::test]
async fn a_stage_in_is_told_to_mounts_that_were_alone_before_it_begins() {
    let it = Fixture::running().await;
    let request = StageRequest { direction: Direction::In, ..out(&["a"], StageDue::Now) };
    it.ask(request).await;
    assert_eq!(it.counts(files(&["a"]), 20_000).await, [1, 0, 0, 0]);
    {
        let world = it.site.world();
        let at = |call: &str| world.calls.iter().position(|other| other == call);
        assert!(
            at("share_mount 7-striped").is_some() && at("share_mount 7-striped") < at("start_stage 7.d5")
        );
        assert_eq!(world.count("share_mount 7-private"), 0);
    }
    it.run(post_run()).await.unwrap();
    it.run(pre_run()).await.unwrap();
    assert_eq!(it.site.world().count("share_mount 7-striped"), 2, "a mount that comes later is told, too");
}

#[tokio::test]
async fn a_buffer_is_its_owners_alone_and_paths_stay_in_it() {
    let it = Fixture::running().await;
    let other = asked::ask(&it.app, Rights::Owner(1001), out(&["a"], StageDue::Now)).await.unwrap_err();
    assert_eq!(other.code, ErrorCode::NoSuchBuffer);
    for bad in ["../a", "/etc/passwd", ""] {
        let error = asked::ask(&it.app, OWNER, out(&[bad], StageDue::Now)).await.unwrap_err();
        assert_eq!(error.blame, wire::control::Blame::User, "{bad}: {error}");
    }
    let mut relative = out(&["a"], StageDue::Now);
    relative.pairs[0].pfs = "a".into();
    assert_eq!(asked::ask(&it.app, OWNER, relative).await.unwrap_err().code, ErrorCode::BadStage);
    assert_eq!(it.counts(StageScope::All, 0).await, [0; 4]);
}

#[tokio::test]
async fn small_files_share_a_worker_and_where_that_fails_each_gets_its_own_verdict() {
    let it = Fixture::running().await;
    let concurrency = StageConcurrency { place: place(), concurrency: 2 };
    buffer::set_concurrency(&it.app, OWNER, concurrency).await.unwrap();
    let names: Vec<String> = (0..100).map(|n| format!("f{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut request = out(&names, StageDue::Now);
    request.pairs.iter_mut().for_each(|pair| pair.size_hint = Some(10));
    it.ask(request.clone()).await;
    assert_eq!(it.counts(StageScope::All, 20_000).await, [100, 0, 0, 0]);
    assert_eq!(it.site.world().count("start_stage 7.d"), 2, "fifty files each");

    // A worker is judged by its source, which is that of its first file.
    it.site.world().failing.insert("$DW_JOB_STRIPED/f0".into());
    it.ask(request).await;
    it.counts(StageScope::All, 20_000).await;
    assert_eq!(it.counts(StageScope::All, 20_000).await, [99, 0, 0, 1]);
    assert_eq!(it.counts(files(&["f0"]), 0).await, [0, 0, 0, 1]);
}
