//! A checksum in each row, as SQLite has none: a bit that flips in a value is seen when the database is opened.
//!
//! **Invariant:** whoever writes a row, its sum is renewed in the same statement, by triggers that the connection has.
//! What was checked stays in the page cache: no value is read from the disk a second time.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction};

/// The column, in every table.
const COLUMN: &str = "crc32c";

/// The SQL function that makes it of the row's other columns.
const FUNCTION: &str = "row_sum";

/// What the page cache may hold, in KiB. A session has some 4 KiB: the rows of 60,000, which is more than a site has at
/// once.
const CACHE_KIB: i64 = 256 << 10;

/// A table, and its columns but for the sum.
struct Table {
    name: String,
    columns: Vec<String>,
}

impl Table {
    /// The expression that sums its row, whose columns have this prefix.
    fn sum(&self, prefix: &str) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|column| format!("{prefix}\"{column}\"")).collect();
        format!("{FUNCTION}({})", columns.join(", "))
    }
}

/// Lets the connection make sums, and keep what it reads.
///
/// # Errors
/// SQLite's.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(FUNCTION, -1, flags, sum)
}

/// The first row that is not as it was written, in words.
///
/// # Errors
/// SQLite's.
pub(super) fn find_damaged(connection: &Connection) -> rusqlite::Result<Option<String>> {
    for table in tables(connection)? {
        let (name, sum) = (&table.name, table.sum(""));
        let sql = format!("SELECT rowid FROM \"{name}\" WHERE {COLUMN} <> {sum} LIMIT 1");
        if let Some(row) = connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).optional()? {
            return Ok(Some(format!("row {row} of its table {name} is not as it was written")));
        }
    }
    Ok(None)
}

/// Sums every row, after a migration has changed them.
///
/// # Errors
/// SQLite's.
pub(super) fn renew(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    for table in tables(tx)? {
        tx.execute(&format!("UPDATE \"{}\" SET {COLUMN} = {}", table.name, table.sum("")), [])?;
    }
    Ok(())
}

/// From now on the connection sums what it writes. Rows without a sum get one.
///
/// # Errors
/// SQLite's.
pub(super) fn keep(connection: &Connection) -> rusqlite::Result<()> {
    for table in tables(connection)? {
        let (name, sum) = (&table.name, table.sum("NEW."));
        let columns: Vec<String> = table.columns.iter().map(|column| format!("\"{column}\"")).collect();
        for (event, what) in [("insert", String::new()), ("update", format!(" OF {}", columns.join(", ")))] {
            connection.execute_batch(&format!(
                "CREATE TEMP TRIGGER \"{name}_{event}_sum\" AFTER {event}{what} ON main.\"{name}\" BEGIN
                     UPDATE \"{name}\" SET {COLUMN} = {sum} WHERE rowid = NEW.rowid;
                 END"
            ))?;
        }
        let sum = table.sum("");
        connection.execute(&format!("UPDATE \"{name}\" SET {COLUMN} = {sum} WHERE {COLUMN} IS NULL"), [])?;
    }
    Ok(())
}

/// Whether any row has a place for one.
///
/// # Errors
/// SQLite's.
pub(super) fn has_any(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(!tables(connection)?.is_empty())
}

/// Those whose rows have sums: none before migration 19.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut query = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )?;
    let names: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
    let mut tables = Vec::new();
    for name in names {
        let all: Vec<String> =
            columns.query_map([&name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let (sums, columns): (Vec<_>, Vec<_>) = all.into_iter().partition(|column| column == COLUMN);
        if !sums.is_empty() {
            tables.push(Table { name, columns });
        }
    }
    Ok(tables)
}

/// CRC32C over each value with its type and length, so that no two rows look alike.
fn sum(values: &Context<'_>) -> rusqlite::Result<i64> {
    let mut sum = 0;
    for index in 0..values.len() {
        let number;
        let (kind, bytes): (u8, &[u8]) = match values.get_raw(index) {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(value) => {
                number = value.to_le_bytes();
                (1, &number)
            }
            ValueRef::Real(value) => {
                number = value.to_le_bytes();
                (2, &number)
            }
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(bytes) => (4, bytes),
        };
        sum = crc32c::crc32c_append(sum, &[kind]);
        sum = crc32c::crc32c_append(sum, &bytes.len().to_le_bytes());
        sum = crc32c::crc32c_append(sum, bytes);
    }
    Ok(sum.into())
}

#[cfg(test)]
mod tests;
