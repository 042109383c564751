//! Users of one buffer whose stages do not hold up each other's.

use std::time::Duration;

use model::phase::StageKind;
use wire::control::{
    Change, ErrorCode, StageChange, StageConcurrency, StageDue, StageQuery, StageRequest, StageScope,
};

use super::on_demand::{OWNER, numbers, out, place};
use super::*;
use crate::rights::Rights;
use crate::state::transfers::{self, Transfer};
use crate::transfers::{asked, buffer, on_demand};

/// Another user of the buffer.
const GRACE: u32 = 1001;

impl Fixture {
    /// Notes stages of grace's that wait: of the file `name` and so on, or of a folder.
    async fn of_grace(&self, kind: StageKind, count: u32, name: &'static str) {
        let note = move |tx: &rusqlite::Transaction<'_>| {
            for n in 0..count {
                let from = if name.is_empty() { String::new() } else { format!("{name}{n}") };
                let one = Transfer::out(kind, &from, &format!("/pfs/grace/{name}{n}"));
                let owner = Owner { uid: GRACE, gid: GRACE };
                transfers::add(tx, &Transfer { owner, state: StageState::Pending, ..one })?;
            }
            Ok(())
        };
        self.app.database.transact(note).await.expect("the disk is whole");
    }

    /// Workers are started beside each other: the last of them may be the first at its node.
    pub(super) async fn until_all_active(&self, ids: &[&str]) {
        for id in ids {
            self.until_active(id).await;
        }
    }

    async fn done(&self, name: &str) {
        asked::ask(&self.app, OWNER, out(&[name], StageDue::Now)).await.expect("accepted");
        let scope = StageScope::Files(vec![name.to_owned()]);
        let query = StageQuery { place: place(), scope, wait_ms: 20_000, after: None };
        let counts = asked::counts(&self.app, OWNER, query).await.expect("the buffer is there");
        assert_eq!(numbers(counts), [1, 0, 0, 0], "{name}");
    }
}

#[tokio::test]
async fn stages_of_one_user_that_wait_or_hang_hold_up_nobody_else_s() {
    let it = Fixture::running().await;
    it.of_grace(StageKind::Directory, 1, "").await;
    it.of_grace(StageKind::File, 600, "f").await;
    it.site.world().hanging.insert("$DW_JOB_STRIPED/".into());
    it.done("first").await;
    it.until_active("7.d5").await;
    it.done("beside her folder, which is above it").await;
    let waiting = asked::counts(
        &it.app,
        Rights::Operator,
        StageQuery { place: place(), scope: StageScope::All, wait_ms: 0, after: None },
    );
    let waiting = waiting.await.unwrap();
    assert!(waiting.complete == 2 && waiting.pending > 600, "hers wait for her own folder: {waiting:?}");
}

#[tokio::test]
async fn who_cancels_a_stage_that_hangs_waits_alone_for_its_end() {
    let it = Fixture::running().await;
    it.of_grace(StageKind::File, 40, "f").await;
    it.site.world().hanging.extend((0..40).map(|n| format!("$DW_JOB_STRIPED/f{n}")));
    it.done("first").await;
    let stuck = ["7.d5", "7.d6", "7.d7", "7.d8"];
    it.until_all_active(&stuck).await;
    it.site.world().unstoppable.extend(stuck.map(String::from));
    let scope = StageScope::Files((0..40).map(|n| format!("f{n}")).collect());
    let how = StageChange { place: place(), scope, change: Change::Terminate };
    let app = Arc::clone(&it.app);
    let cancelled = tokio::spawn(async move { asked::change(&app, Rights::Operator, how).await });
    while it.app.on_demand.paused().is_empty() {
        tokio::task::yield_now().await;
    }
    let meanwhile = it.done("begun and ended meanwhile");
    tokio::time::timeout(Duration::from_secs(20), meanwhile).await.expect("others wait for her node");
    assert!(!cancelled.is_finished(), "the node has not stopped it");
    it.site.world().unstoppable.clear();
    assert_eq!(numbers(cancelled.await.unwrap().unwrap().1), [0, 40, 0, 0]);
    assert_eq!(it.site.world().count("start_stage 7.d"), stuck.len() + 2, "another of hers was started");
    it.site.world().hanging.insert("$DW_JOB_STRIPED/later0".into());
    it.of_grace(StageKind::File, 1, "later").await;
    it.done("last").await;
    it.until_active(&format!("7.d{}", 5 + 40 + 2)).await;
}

#[tokio::test]
async fn what_is_asked_for_in_another_buffer_while_a_cancel_waits_is_started_after_it() {
    let (it, other) = (Fixture::running().await, Token::literal("8"));
    for step in [Request::Setup(Box::new(request(JOB))), Request::DataIn, pre_run()] {
        it.app.run(&other, step).await.unwrap();
    }
    it.site.world().hanging.insert("$DW_JOB_STRIPED/f0".into());
    it.of_grace(StageKind::File, 1, "f").await;
    it.done("first").await;
    it.until_active("7.d9").await;
    it.site.world().unstoppable.insert("7.d9".into());
    let scope = StageScope::Files(vec!["f0".into()]);
    let how = StageChange { place: place(), scope, change: Change::Terminate };
    let app = Arc::clone(&it.app);
    let cancelled = tokio::spawn(async move { asked::change(&app, Rights::Operator, how).await });
    while it.app.on_demand.paused().is_empty() {
        tokio::task::yield_now().await;
    }
    let (owner, state, token) = (Owner { uid: GRACE, gid: GRACE }, StageState::Pending, other.clone());
    let elsewhere = Transfer { owner, state, token, ..Transfer::out(StageKind::File, "g", "/pfs/grace/g") };
    it.app.database.transact(move |tx| transfers::add(tx, &elsewhere).map(drop)).await.unwrap();
    on_demand::kick(&it.app, &other).await.unwrap();
    assert_eq!(it.site.world().count("start_stage 8.d"), 0, "nothing of hers is started now");
    it.site.world().unstoppable.clear();
    cancelled.await.unwrap().unwrap();
    let started = async {
        while it.site.world().count("start_stage 8.d") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), started).await.expect("it waits for ever");
}

#[tokio::test]
async fn what_one_user_has_asked_for_in_all_buffers_takes_no_room_of_others() {
    let it = Fixture::running().await;
    let fill = |tx: &rusqlite::Transaction<'_>| {
        tx.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
             INSERT INTO transfers (token, direction, kind, buffer, access_mode, buffer_path, pfs_path, owner_uid,
             owner_gid, state) SELECT '7', 'out', 'file', '', 'striped', 'f' || n, '/pfs/f' || n, ?2, ?2, 'deferred'
             FROM numbers",
            [transfers::ON_DEMAND_MAX, u64::from(GRACE)],
        )?;
        Ok((transfers::make_room(tx, GRACE, 1)?, transfers::make_room(tx, 1000, 65_536)?))
    };
    assert_eq!(it.app.database.transact(fill).await.unwrap(), (false, true));
    it.done("a").await;
    // His complete ones make room, whosever the buffer.
    let done = |tx: &rusqlite::Transaction<'_>| {
        tx.execute("UPDATE transfers SET state = 'complete' WHERE buffer_path = 'f1'", [])?;
        transfers::make_room(tx, GRACE, 1)
    };
    assert!(it.app.database.transact(done).await.unwrap());
}

#[tokio::test]
async fn a_list_of_stages_comes_in_parts_and_they_are_changed_at_once() {
    let it = Fixture::running().await;
    let names: Vec<String> = (0..2500).map(|n| format!("d/{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ids = asked::ask(&it.app, OWNER, out(&names, StageDue::AtJobEnd)).await.unwrap().1.ids;
    for scope in [StageScope::All, StageScope::Directory("d".into()), StageScope::Ids(ids.clone())] {
        let (mut seen, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let after = seen.last().cloned();
            let query = StageQuery { place: place(), scope: scope.clone(), wait_ms: 0, after };
            let next = asked::list(&it.app, OWNER, query).await.unwrap();
            sizes.push(next.len());
            if next.is_empty() {
                break;
            }
            seen.extend(next.into_iter().map(|stage| stage.id));
        }
        assert_eq!(sizes, [1000, 1000, 500, 0], "{scope:?}");
        assert_eq!(seen, ids);
        let counts = StageQuery { place: place(), scope, wait_ms: 0, after: None };
        let counts = asked::counts(&it.app, OWNER, counts).await.unwrap();
        assert_eq!(numbers(counts), [0, 0, 2500, 0]);
    }
    let how = StageChange { place: place(), scope: StageScope::All, change: Change::Revoke };
    assert_eq!(numbers(asked::change(&it.app, OWNER, how).await.unwrap().1), [0, 0, 2500, 0]);
    let query = StageQuery { place: place(), scope: StageScope::All, wait_ms: 0, after: None };
    assert_eq!(numbers(asked::counts(&it.app, OWNER, query).await.unwrap()), [0; 4]);
}

#[tokio::test]
async fn nothing_of_a_later_page_takes_the_place_of_what_is_stopped() {
    let it = Fixture::running().await;
    let names: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    it.site.world().hanging.extend(names.iter().map(|name| format!("$DW_JOB_STRIPED/{name}")));
    asked::ask(&it.app, OWNER, out(&names, StageDue::Now)).await.unwrap();
    it.until_all_active(&["7.d5", "7.d6", "7.d7", "7.d8"]).await;
    let how = StageChange { place: place(), scope: StageScope::All, change: Change::Terminate };
    assert_eq!(numbers(asked::change(&it.app, OWNER, how).await.unwrap().1), [0, 1500, 0, 0]);
    assert_eq!(it.site.world().count("start_stage 7.d"), 4);
}

#[tokio::test]
async fn folders_that_are_counted_without_being_read_count_the_files_in_them() {
    let it = Fixture::running().await;
    it.site.world().failing.insert("$DW_JOB_STRIPED/bad".into());
    for (kind, name) in
        [(StageKind::Directory, "good"), (StageKind::Directory, "bad"), (StageKind::File, "f")]
    {
        let request = StageRequest { kind, ..out(&[name], StageDue::Now) };
        asked::ask(&it.app, OWNER, request).await.unwrap();
    }
    let of = |scope, wait_ms| StageQuery { place: place(), scope, wait_ms, after: None };
    asked::counts(&it.app, OWNER, of(StageScope::All, 20_000)).await.unwrap();
    let space = crate::state::transfers::Space {
        token: token(),
        access_mode: AccessMode::Striped,
        owner: Some(1000),
    };
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let all = transfers::named(tx, &space, &StageScope::All, 0)?;
        Ok((transfers::counts(&all), transfers::count(tx, &space, &StageScope::All)?))
    };
    let (of_rows, counted) = it.app.database.transact(read).await.unwrap();
    assert_eq!(of_rows, counted, "whichever way they are counted");
    assert!(counted.complete >= 2 && counted.failed >= 1 && counted.errno == 13, "{counted:?}");
}

#[tokio::test]
async fn a_buffer_runs_1_to_64_stages_of_each_user_at_once() {
    let it = Fixture::running().await;
    let set = |concurrency| {
        buffer::set_concurrency(&it.app, OWNER, StageConcurrency { place: place(), concurrency })
    };
    for wrong in [0, 65, u32::MAX] {
        assert_eq!(set(wrong).await.unwrap_err().code, ErrorCode::BadStage, "{wrong}");
    }
    set(64).await.unwrap();
    let of_user = |uid: u32, name: &str| Transfer {
        owner: Owner { uid, gid: uid },
        state: StageState::Pending,
        ..Transfer::out(StageKind::File, name, "/pfs/f")
    };
    let all: Vec<Transfer> =
        (0..70).flat_map(|n| [of_user(GRACE, &format!("g{n}")), of_user(1000, &format!("o{n}"))]).collect();
    let begin = move |tx: &rusqlite::Transaction<'_>| {
        all.iter().try_for_each(|one| transfers::add(tx, one).map(drop))?;
        transfers::start_next(tx, &token(), &[])
    };
    let begun = it.app.database.transact(begin).await.unwrap();
    let of = |uid| begun.iter().filter(|batch| batch[0].owner.uid == uid).count();
    assert_eq!([of(GRACE), of(1000)], [64, 64], "one user has no more workers than others can bear");
    let more = it.app.database.transact(|tx| transfers::start_next(tx, &token(), &[])).await.unwrap();
    assert!(more.is_empty());
}
