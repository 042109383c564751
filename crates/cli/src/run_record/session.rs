//! Whether a record is of the session that control has under its token, and of the script that there is now.
//!
//! **Invariant:** a token alone says nothing: a `control.db` that was made anew, or is an older copy, gives tokens
//! again.

use wire::control::SessionStatus;

use super::{Job, RunRecord};
use crate::failure::Failure;

impl RunRecord {
    /// Whether this was written of the session `known`.
    ///
    /// One that is not noted to be set up is that of the same script: its job never ran, or the release that wrote the
    /// record noted nothing.
    pub fn is_of(&self, known: &SessionStatus) -> bool {
        match self.session_created_unix {
            Some(created) if created == known.created_unix => true,
            Some(_) => self.job == Job::NotStarted && self.submitted() == known.script,
            None => self.submitted() == known.script,
        }
    }

    /// Whether the script's file still has what was submitted.
    pub fn script_is_unchanged(&self) -> bool {
        self.is_command
            || std::fs::read(&self.script.path).is_ok_and(|now| now == self.script.text.as_bytes())
    }

    /// Says that the record is another session's.
    pub fn of_another(&self, path: &std::path::Path) -> Failure {
        let (token, script) = (&self.token, self.script.path.display());
        Failure::no_input(
            format!(
                "run {token} of {script} does not belong to the present buffer {token}: control's database was made \
                 anew, or an older copy of it put back"
            ),
            format!(
                "put the database of that run back; or give that run up with `rm {}`, which leaves buffer {token} as \
                 it is",
                path.display()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use model::Token;

    use super::*;
    use crate::exit_code::JobExit;
    use crate::fixtures;

    #[test]
    fn a_record_is_never_taken_for_that_of_a_later_session_of_its_token() {
        let known = fixtures::session();
        let ended = Job::Ended { exit: JobExit::Status(0), elapsed_ms: 5 };
        let new = || RunRecord::new(Token::literal("3"), known.script.clone(), "/a".into());
        let of = |created| RunRecord { session_created_unix: Some(created), job: ended.clone(), ..new() };
        assert!(of(known.created_unix).is_of(&known));
        assert!(
            !of(known.created_unix - 1).is_of(&known),
            "the same script, run before the database was lost"
        );
        assert!(new().is_of(&known), "it was set up, and that was not noted any more");
        let mut other = fixtures::session();
        other.script.job_name = "interactive".into();
        assert!(!new().is_of(&other));
        let refused = of(1).of_another("/s/run/3.json".as_ref()).to_string();
        assert!(refused.contains("made anew"), "{refused}");
    }
}
