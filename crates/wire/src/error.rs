//! An error as it crosses from one process to another.

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The request, the script, or the files that it names.
    User,
    /// The machine or its set-up: a full disk, a missing device, a dead node.
    Site,
    /// A bug of ours.
    Forebay,
}

/// An error as every service answers it: what was tried and on what, why it failed, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}; {advice}")]
pub struct ApiError {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// Whose fault it is.
    pub blame: Blame,
    /// One line: what was tried, on which file or node, and the errno's text.
    pub message: String,
    /// One line: what to do next.
    pub advice: String,
}

/// The text without `(os error 2)` and its like, for people and for what programs show them: the words before it are
/// the error's name.
pub fn without_numbers(text: &str) -> String {
    const NUMBER: &str = " (os error ";
    let mut pieces = text.split(NUMBER);
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => kept += rest,
            _ => kept.extend([NUMBER, piece]),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_names_and_not_their_numbers() {
        let told = "find /a: No such file or directory (os error 2); read /b (os error x) (os error 13)";
        assert_eq!(without_numbers(told), "find /a: No such file or directory; read /b (os error x)");
    }
}
