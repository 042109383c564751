//! The database over its schemas.

use model::Token;
use model::directive::Behaviour;
use model::phase::{Coherence, Direction, Drain, Redundancy, StageState};
use wire::control::{Owner, StageDue, StageStatus};

use super::transfers::{Origin, Transfer};
use super::*;
use crate::site::PoolKind;

fn job() -> Token {
    Token::literal("7")
}

fn data() -> Token {
    Token::literal("data")
}

/// A database of an older schema, with these rows.
fn older(path: &Path, schema: usize, rows: &str) {
    let old = Connection::open(path).unwrap();
    MIGRATIONS[..schema].iter().for_each(|step| old.execute_batch(step).unwrap());
    old.pragma_update(None, "user_version", schema).unwrap();
    old.execute_batch(rows).unwrap();
}

#[test]
fn what_the_first_schema_holds_is_there_in_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    older(
        &path,
        1,
        "INSERT INTO sessions VALUES ('7', 1, 1000, 1000, 't', '/p', '/w', 'j', 'u', 'mounted', 1, NULL, NULL, '[]');
         INSERT INTO instances VALUES ('7', 'i1', 'k', 5, 6, 'directory');
         INSERT INTO fragments VALUES ('7', 0, 'n0'), ('7', 1, 'n1');
         INSERT INTO namespaces VALUES ('7', 0, 'striped');
         INSERT INTO activations VALUES ('7', 'striped', 'n0', '/m', 1, 2);
         INSERT INTO stages VALUES ('7', 0, 'in', 'file', 'striped', '/a', 'a', 's', 'd', 'complete', NULL);",
    );
    Database::open(&path).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    let session = sessions::find(&tx, &job()).unwrap().unwrap();
    assert_eq!((session.handle.as_str(), session.number, session.was_mounted), ("7", 1, true));
    assert_eq!(instances::find(&tx, &job()).unwrap().unwrap().nodes, ["n0", "n1"]);
    assert_eq!(activations::of(&tx, &job()).unwrap()[0].interruptions, 2);
    assert_eq!(transfers::of_script(&tx, &job()).unwrap().len(), 1);
    let renamed = sessions::quarantine(&tx, &job(), "old").unwrap();
    assert_eq!(instances::find(&tx, &renamed).unwrap().unwrap().nodes.len(), 2, "all follows the token");
}

#[test]
fn a_session_with_the_longest_name_can_be_quarantined_and_has_a_token_then() {
    let dir = tempfile::tempdir().unwrap();
    let (path, token) = (dir.path().join("control.db"), Token::unchecked("a".repeat(Token::LEN_MAX)));
    let row = "1000, 1000, 't', '/p', '/w', 'j', 'u', 'mounted', 1, NULL, NULL, '[]'";
    older(&path, 1, &format!("INSERT INTO sessions VALUES ('{token}', 1, {row})"));
    Database::open(&path).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    let renamed = sessions::quarantine(&tx, &token, "old").unwrap();
    assert!(renamed.as_str().ends_with("a-old-1") && renamed.check().is_ok(), "{renamed}");
}

#[test]
fn a_session_whose_token_no_request_may_name_any_more_is_read_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    let long = format!("{}-old-1", "a".repeat(Token::LEN_MAX));
    let row = "1000, 1000, 't', '/p', '/w', 'j', 'u', 'mounted', 1, NULL, NULL, '[]'";
    let rows =
        format!("INSERT INTO sessions VALUES ('{long}', 1, {row}), ('a.b', 2, {row}), ('', 3, {row});");
    older(&path, 1, &rows);
    Database::open(&path).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    let living = sessions::living(&tx).unwrap();
    let tokens: Vec<&str> = living.iter().map(|session| session.token.as_str()).collect();
    assert_eq!(tokens, [long.as_str(), "a.b", ""]);
    assert!(living.iter().all(|one| sessions::find(&tx, &one.token).unwrap().as_ref() == Some(one)));
}

#[test]
fn a_database_is_opened_again_and_a_newer_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    Database::open(&path).unwrap();
    Database::open(&path).unwrap();
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    newer.execute_batch("UPDATE schema SET version = 99, crc32c = NULL").unwrap();
    drop(newer);
    let newer = std::fs::read(&path).unwrap();
    assert!(matches!(Database::open(&path), Err(StateError::Newer { found: 99, .. })));
    assert!(std::fs::read(&path).unwrap() == newer, "it is kept as it was");
}

#[test]
fn a_database_that_is_there_and_empty_is_refused_by_name_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    let refused = || Database::open(&path).err().expect("it is empty").to_string();
    std::fs::write(&path, b"").unwrap();
    assert!(refused().contains("control.db is empty") && refused().contains("forebay-control restore"));
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    assert!(refused().contains("control.db is empty"), "it has no tables: {}", refused());
    std::fs::remove_file(&path).unwrap();
    // A life that was ended while it made one.
    std::fs::write(dir.path().join("control.new"), b"SQLite").unwrap();
    Database::open(&path).unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["control.db", "control.db-journal"]);
}

#[test]
fn the_page_on_compatibility_names_the_schema_of_today() {
    let page = include_str!("../../../../docs/understand/compatibility.md");
    let said = format!("| `control.db` | `user_version`, {};", MIGRATIONS.len());
    assert!(page.contains(&said), "docs/understand/compatibility.md does not have: {said}");
}

#[tokio::test]
async fn what_is_committed_is_in_the_database_and_not_only_in_a_log_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, alone) = (dir.path().join("control.db"), dir.path().join("alone.db"));
    // As builds from before 0.1.0 left it.
    older(&path, 1, "");
    Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    let database = Database::open(&path).unwrap();
    let next = |tx: &Transaction<'_>| counters::next(tx, counters::Counter::Token);
    let given = database.transact(next).await.unwrap();
    std::fs::copy(&path, &alone).unwrap();
    let known = Database::open(&alone).unwrap().transact(next).await.unwrap();
    assert_eq!(known, given + 1);
}

#[test]
fn each_commit_is_synced_before_it_is_acted_on() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(&dir.path().join("control.db")).unwrap();
    let connection = database.connection.lock().unwrap();
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap();
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    // FULL, with a journal that is rolled back: the journal and the database are synced in each commit.
    assert_eq!((number("synchronous"), pragma("journal_mode").as_str()), (2, "persist"));
}

#[test]
fn a_damaged_database_is_refused_by_name_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    drop(Database::open(&path).unwrap());
    let whole = std::fs::read(&path).unwrap();
    // The file's head, and the root of its last table or index.
    for place in [3, whole.len() - 4096] {
        let mut damaged = whole.clone();
        damaged[place..place + 8].fill(0xA5);
        std::fs::write(&path, &damaged).unwrap();
        let refused = Database::open(&path).err().expect("it is damaged");
        assert!(matches!(refused, StateError::Damaged { .. }), "{place}: {refused}");
        assert!(std::fs::read(&path).unwrap() == damaged, "{place}");
    }
}

/// One instance on the disk of one machine, or in a pool of that name, and three in other pools of a cluster.
const INSTANCES: &str =
    "INSERT INTO sessions (number, token, handle, caller, created_unix, owner_uid, owner_gid, script_text,
     script_path, workdir, job_name, user_name, phase, notes_json) SELECT value, value, value, 'CLI', 1, 1, 1, '',
     '', '', '', '', 'ready', '[]' FROM json_each('[1, 2, 3, 4]');
     INSERT INTO instances (token, id, key, requested_bytes, capacity_bytes, volume, granularity_bytes, pool,
     on_job_nodes, coherence, redundancy, drain) VALUES
     ('1', 'i1', 'k', 1, 1, 'directory', 1, 'local', 0, 'posix', 'none', NULL),
     ('2', 'i2', 'k', 1, 1, 'directory', 1, 'wlm_pool', 0, 'commit', 'none', NULL),
     ('3', 'i3', 'k', 1, 1, 'directory', 1, 'nvme', 1, 'posix', 'none', 'on-close'),
     ('4', 'i4', 'k', 1, 1, 'directory', 1, 'nvme', 1, 'posix', 'mirror', NULL);
     INSERT INTO namespaces (token, position, access_mode) VALUES ('1', 0, 'private'), ('2', 0, 'private'),
     ('3', 0, 'private'), ('4', 0, 'striped');";

#[test]
fn an_instance_is_of_the_kind_and_behaves_as_an_older_schema_said() {
    use PoolKind::{Disk, NodeLocal, NodeLocalStriped, Storage};
    let node = "INSERT INTO nodes VALUES ('s1', 1, 0, 'a', '', 1, '/m', '', NULL);";
    for (nodes, local) in [("", Disk), (node, Storage)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.db");
        older(&path, 15, &format!("{INSTANCES}{nodes}"));
        Database::open(&path).unwrap();
        let mut connection = Connection::open(&path).unwrap();
        let tx = connection.transaction().unwrap();
        let all = instances::all(&tx).unwrap();
        let kinds: Vec<PoolKind> = all.iter().map(|instance| instance.kind).collect();
        assert_eq!(kinds, [local, Storage, NodeLocal, NodeLocalStriped]);
        let plain = Behaviour::default();
        let commit = Behaviour { coherence: Coherence::Commit, ..plain };
        let drained = Behaviour { drain: Some(Drain::OnClose), ..plain };
        let mirrored = Behaviour { redundancy: Redundancy::Mirror, ..plain };
        let behaviours: Vec<Behaviour> = all.iter().map(|instance| instance.behaviour).collect();
        assert_eq!(behaviours, [plain, commit, drained, mirrored]);
    }
}

const JOBS: &str =
    "INSERT INTO sessions (number, token, handle, caller, created_unix, owner_uid, owner_gid, script_text, script_path, workdir,
     job_name, user_name, phase, notes_json, persistent, shared) VALUES
     (1, 'data', 'data', 'SLURM', 1, 1000, 100, '', '', '', '', '', 'ready', '[]', 1, 1),
     (2, '7', '7-r2', 'SLURM', 2, 1001, 101, '#DW', '/p', '/w', 'j', 'u', 'unmounted', '[]', 0, 0);
     INSERT INTO instances (token, id, key, requested_bytes, capacity_bytes, volume, pool, granularity_bytes) VALUES
     ('data', 'i1', 'k', 1, 1, 'directory', 'p', 1), ('7', 'i2', 'k', 1, 1, 'directory', 'p', 1);
     INSERT INTO stages (token, position, direction, kind, buffer, access_mode, pfs_path, buffer_path, source, destination,
     state, report_json) VALUES
     ('7', 1, 'out', 'directory', 'data', 'striped', '/pfs/out', 'out/', '$DW_PERSISTENT_STRIPED_data/out/', '/pfs/out',
     'deferred', NULL),
     ('7', 0, 'in', 'file', '', 'private', '/pfs/a', 'a', '/pfs/a', '$DW_JOB_PRIVATE/a', 'failed',
     'REPORT');
     INSERT INTO demands (number, token, job, direction, kind, access_mode, buffer_path, pfs_path, owner_uid, owner_gid, state,
     size_hint, batch, report_json) VALUES
     (3, 'data', '7', 'out', 'file', 'striped', 'x', '/pfs/x', 1001, 101, 'active', 10, 3, NULL),
     (4, 'data', NULL, 'out', 'file', 'striped', 'x', '/pfs/y', 1002, 102, 'complete', NULL, NULL, NULL),
     (5, '7', '7', 'in', 'directory', 'striped', '', '/pfs/in', 1001, 101, 'pending', NULL, NULL, NULL),
     (9, '7', '7', 'out', 'file', 'striped', 'z', '/pfs/z', 1001, 101, 'deferred', NULL, NULL, NULL);
     DELETE FROM demands WHERE number = 9;";

fn shown(tx: &rusqlite::Transaction<'_>, token: &Token) -> Vec<Transfer> {
    transfers::shown(tx, token, None, 10).unwrap()
}

#[test]
fn every_stage_of_scripts_and_on_demand_is_there_in_the_table_of_transfers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    let report = StageStatus {
        id: "7.0".into(),
        source: "/pfs/a".into(),
        destination: "$DW_JOB_PRIVATE/a".into(),
        state: StageState::Failed,
        elapsed_ms: 17,
        ..StageStatus::default()
    };
    older(&path, 9, &JOBS.replace("REPORT", &text::to_json(&report)));
    Database::open(&path).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    let ids = |found: &[Transfer]| -> Vec<String> {
        found.iter().map(|one| format!("{} {}", one.id(one.token.as_str()), one.state.word())).collect()
    };
    let script = transfers::of_script(&tx, &job()).unwrap();
    assert_eq!(ids(&script), ["7.0 failed", "7.1 deferred"]);
    assert_eq!(script[0].status().elapsed_ms, 17, "its report is there");
    assert_eq!((script[0].status().source.as_str(), script[0].holder().as_str()), ("/pfs/a", "7"));
    let out = &script[1];
    assert_eq!((out.buffer_name().as_str(), out.holder().as_str()), ("$DW_PERSISTENT_STRIPED_data", "data"));
    assert_eq!(
        (out.source().as_str(), &out.owner),
        ("$DW_PERSISTENT_STRIPED_data/out/", &Owner { uid: 1001, gid: 101 }),
        "whose rights apply is the session's owner"
    );
    assert_eq!((out.pfs_path.to_str(), out.buffer_path.as_str()), (Some("/pfs/out"), "out/"));

    let asked = shown(&tx, &job());
    assert_eq!(ids(&asked), ["data.d3 active", "7.d5 pending"]);
    assert_eq!(
        (&asked[0].origin, asked[0].source().as_str(), asked[0].owner.uid),
        (&Origin::OnDemand { size_hint: Some(10), ino: None }, "$DW_PERSISTENT_STRIPED_data/x", 1001)
    );
    assert_eq!((asked[1].direction, asked[1].source().as_str()), (Direction::In, "/pfs/in"));
    assert_eq!(ids(&shown(&tx, &data())), ["data.d3 active", "data.d4 complete"]);
    assert_eq!(ids(&transfers::unfinished_of(&tx, &job(), 0).unwrap()), ["7.d5 pending"], "not the script's");

    let state = transfers::waiting(StageDue::AtJobEnd);
    let added = transfers::add(&tx, &Transfer { number: 0, state, ..asked[0].clone() }).unwrap();
    assert!(added > 11, "the numbers go on, also over one that was forgotten: {added}");
    let renamed = sessions::quarantine(&tx, &job(), "old").unwrap();
    let followed = transfers::of_script(&tx, &renamed).unwrap();
    assert_eq!((followed.len(), followed[1].job.as_ref()), (2, Some(&renamed)), "all follows the token");
    tx.execute("DELETE FROM sessions WHERE token = ?1", [text::Word(&renamed)]).unwrap();
    assert!(transfers::of_script(&tx, &renamed).unwrap().is_empty());
    let left = shown(&tx, &data());
    assert!(left.iter().all(|one| one.job.is_none() && one.state != StageState::Failed), "the buffer's stay");
}
