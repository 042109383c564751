//! What the workload manager reads: a text and whether the function succeeded.

use std::fmt::Display;

use serde::Serialize;

/// The answer of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It succeeded; the text is for logs, or a form that Slurm parses.
    Done(String),
    /// It failed; one line for the user.
    Failed(String),
    /// There is no such session, and the workload manager shall go on as if the function had succeeded.
    NoSession,
}

/// Texts that Slurm takes as an order, wherever they stand in a failed function's text
/// (`burst_buffer_datawarp.c`: `_start_stage_in`, `_start_stage_out`, `_start_teardown`). Here with what is said
/// instead.
const ORDERS: [(&str, &str); 2] =
    [("No matching session", "no such session"), ("token not found", "no such token")];

/// Texts that Slurm takes as an order at the start of an answer (`bb_p_job_begin`, `_get_real_size`).
const FIRST_WORDS: [&str; 2] = ["job_file_valid True", "invalid function"];

impl Answer {
    /// A failure. Whatever the message has in it, such as the name of a file, it stays a failure in one line.
    pub fn failed(reason: impl Display) -> Answer {
        let mut line =
            wire::without_numbers(&reason.to_string()).split_whitespace().collect::<Vec<_>>().join(" ");
        for (order, harmless) in ORDERS {
            line = line.replace(order, harmless);
        }
        if FIRST_WORDS.iter().any(|words| line.starts_with(words)) {
            line.insert_str(0, "error: ");
        }
        Answer::Failed(line)
    }

    /// JSON for Slurm. Slurm turns every apostrophe into a quotation mark before it parses, so they are left out; only
    /// names chosen by people could have one.
    pub fn json(value: &impl Serialize) -> Answer {
        match serde_json::to_string(value) {
            Ok(text) => Answer::Done(text.replace('\'', "")),
            Err(error) => Answer::failed(error),
        }
    }

    /// What goes to standard output, and the exit status. A reason has no line end: Slurm shows it as it is, in lists
    /// that have a line for each job.
    pub fn into_output(self) -> (String, u8) {
        match self {
            Answer::Done(text) if text.is_empty() => (text, 0),
            Answer::Done(text) => (format!("{text}\n"), 0),
            Answer::Failed(line) => (line, 1),
            // Both words: Slurm looks for the first after a stage, for either after a teardown.
            Answer::NoSession => ("token not found: No matching session\n".to_owned(), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_never_an_order() {
        let failed = |text: &str| Answer::failed(text).into_output();
        assert_eq!(failed("a\n  b\tc"), ("a b c".into(), 1));
        assert_eq!(
            failed("open /a: Permission denied (os error 13)"),
            ("open /a: Permission denied".into(), 1)
        );
        let (text, status) = failed("open /pfs/No matching session/token not found: EACCES");
        assert!(status == 1 && !text.contains("No matching session") && !text.contains("token not found"));
        assert!(failed("job_file_valid True").0.starts_with("error: "));
        assert!(failed("invalid function x").0.starts_with("error: "));
    }

    #[test]
    fn json_has_no_apostrophe() {
        let answer = Answer::json(&serde_json::json!({"sessions": [{"token": "o'brien"}]}));
        assert_eq!(answer, Answer::Done(r#"{"sessions":[{"token":"obrien"}]}"#.into()));
    }

    #[test]
    fn only_a_missing_session_carries_the_orders() {
        let (text, status) = Answer::NoSession.into_output();
        assert!(status == 1 && text.contains("No matching session") && text.contains("token not found"));
    }
}
