//! The sums of rows: that they are renewed with each change, and that a bit that flips is seen.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::{Database, StateError};
use super::*;

/// A database that knows one node, at this address.
fn database(address: &str) -> (TempDir, PathBuf, Database) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    let database = Database::open(&path).unwrap();
    let sql = format!(
        "INSERT INTO nodes (name, storage, compute, address, pool, capacity_bytes, mount_root, version)
         VALUES ('n1', 1, 1, '{address}', 'flash', 1, '/mnt', '1')"
    );
    database.connection.lock().unwrap().execute_batch(&sql).unwrap();
    (dir, path, database)
}

/// Replaces the only place where these bytes are in the file.
fn flip(path: &Path, written: &str, found: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut places = bytes.windows(written.len()).enumerate().filter(|(_, at)| *at == written.as_bytes());
    let (place, _) = places.next().expect("it is there");
    assert!(places.next().is_none(), "only there");
    bytes[place..place + found.len()].copy_from_slice(found.as_bytes());
    std::fs::write(path, bytes).unwrap();
}

fn address(database: &Database) -> String {
    let connection = database.connection.lock().unwrap();
    connection.query_row("SELECT address FROM nodes", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_bit_that_flips_in_a_value_is_seen_and_the_row_is_named() {
    let (_dir, path, database) = database("10.0.0.1:7071");
    drop(database);
    flip(&path, "10.0.0.1:7071", "10.0.0.3:7071");
    let refused = Database::open(&path).err().expect("it is damaged");
    assert!(
        matches!(&refused, StateError::Damaged { found, .. } if found.contains("row 1 of its table nodes"))
    );
    // Whoever has looked at the row takes it as it is.
    Connection::open(&path).unwrap().execute_batch("UPDATE nodes SET crc32c = NULL").unwrap();
    assert_eq!(address(&Database::open(&path).unwrap()), "10.0.0.3:7071");
    flip(&path, "10.0.0.3:7071", "10.0.0.1:7071");
    assert!(matches!(Database::open(&path), Err(StateError::Damaged { .. })), "the row has a sum again");
}

#[test]
fn what_was_checked_is_not_read_from_the_disk_again() {
    let (_dir, path, database) = database("10.0.0.1:7071");
    drop(database);
    let database = Database::open(&path).unwrap();
    flip(&path, "10.0.0.1:7071", "10.0.0.3:7071");
    assert_eq!(address(&database), "10.0.0.1:7071");
}

#[test]
fn every_change_of_a_row_renews_its_sum() {
    let (_dir, path, database) = database("10.0.0.1:7071");
    let changes = "
        UPDATE nodes SET address = '10.0.0.2:7071', storage = 0;
        INSERT INTO counters (name, value) VALUES ('token', 1) ON CONFLICT DO UPDATE SET value = value + 1;
        INSERT INTO counters (name, value) VALUES ('token', 1) ON CONFLICT DO UPDATE SET value = value + 1;
        INSERT OR REPLACE INTO counters (name, value) VALUES ('instance', 3), ('token', 9);";
    database.connection.lock().unwrap().execute_batch(changes).unwrap();
    drop(database);
    assert_eq!(address(&Database::open(&path).unwrap()), "10.0.0.2:7071");
}

#[test]
fn every_table_has_sums() {
    let (_dir, path, database) = database("a");
    drop(database);
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let all: usize = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(tables(&connection).unwrap().len(), all);
}
