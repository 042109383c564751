//! What a row has as JSON.

use model::Token;
use model::phase::{StageKind, StageState};
use rusqlite::{Connection, params};
use wire::control::StageStatus;
use wire::node::PfsMount;

use super::{Transfer, find, insert, set_report};
use crate::state::Database;

#[test]
fn what_is_not_understood_of_a_row_is_gone_on_without() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    Database::open(&path).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    tx.execute_batch("PRAGMA defer_foreign_keys = ON").unwrap();
    let mount = PfsMount { path: "/pfs/a".into(), mountpoint: "/pfs".into(), kind: "lustre".into() };
    let asked = Transfer { pfs_mount: Some(mount.clone()), ..Transfer::out(StageKind::File, "a", "/pfs/a") };
    let number = insert(&tx, &asked).unwrap();
    set_report(&tx, number, &StageStatus { state: StageState::Failed, ..StageStatus::default() }).unwrap();
    let found = || find(&tx, number).map(Option::unwrap);
    let whole = found().unwrap();
    assert_eq!(
        (whole.token.clone(), whole.has_failed(), whole.pfs_mount),
        (Token::literal("7"), true, Some(mount))
    );

    let set = |column, text| {
        let sql = format!("UPDATE transfers SET {column} = ?2 WHERE number = ?1");
        tx.execute(&sql, params![number, text]).unwrap();
    };
    set("report_json", "{\"of\": \"a newer control\"}");
    assert_eq!(found().unwrap().report, None);
    set("pfs_mount_json", "{\"of\": \"a newer control\"}");
    assert_eq!(found().unwrap().pfs_mount, None, "it is asked for anew");
}
