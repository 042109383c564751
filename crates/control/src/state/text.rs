//! Enumerations and names, and what has several fields, as SQLite text.

#[cfg(test)]
mod tests;

use kept::OnDisk;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// A name, or an enumeration whose values serialise to one word each: as that word.
pub(super) struct Word<T>(pub T);

impl<T: OnDisk> ToSql for Word<&T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = serde_json::to_value(self.0.to_form());
        let value = value.map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        match value {
            serde_json::Value::String(word) => Ok(word.into()),
            other => Err(rusqlite::Error::ToSqlConversionFailure(format!("{other} is not one word").into())),
        }
    }
}

impl<T: OnDisk> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Word<T>> {
        let word = serde_json::Value::String(value.as_str()?.to_owned());
        serde_json::from_value(word).map(T::from_form).map(Word).map_err(|e| FromSqlError::Other(e.into()))
    }
}

/// The word in a row's first column.
pub(super) fn first_word<T: OnDisk>(row: &Row<'_>) -> rusqlite::Result<T> {
    row.get::<_, Word<T>>(0).map(|word| word.0)
}

/// Something that is acted on again, as JSON: what does not parse any more is an error.
pub(super) struct Json<T>(pub T);

impl<T: OnDisk> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = kept::to_text(&self.0);
        text.map(Into::into).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
    }
}

impl<T: OnDisk> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Json<T>> {
        kept::from_text(value.as_bytes()?).map(Json).map_err(|e| FromSqlError::Other(e.into()))
    }
}

/// Something that is only shown again, as JSON.
pub(super) fn to_json(value: &impl OnDisk) -> String {
    kept::to_text(value).unwrap_or_default()
}

/// What [`to_json`] wrote; `None` where nothing was. What does not parse any more was only shown: all else goes on
/// without.
pub(super) fn from_json<T: OnDisk>(text: Option<String>) -> Option<T> {
    let understood = kept::from_text(text?.as_bytes());
    understood
        .inspect_err(|error| tracing::error!(%error, "what was noted to be shown is not understood"))
        .ok()
}
