//! `show_sessions`: the sessions that Slurm shall know. From this list it finds persistent buffers, and after a start
//! it tears down every session whose token is a number without a job.

use serde_json::{Value, json};
use wire::control::{Objects, SessionObject};

use super::answer::Answer;
use api::control::Control;

pub(super) fn run(control: &Control) -> Answer {
    match control.get::<Objects>("/v1/objects") {
        Ok(objects) => Answer::json(&form(&objects)),
        Err(error) => Answer::failed(error),
    }
}

/// Whether Slurm is told of a session: its own jobs', and persistent buffers. Not what was quarantined after Slurm
/// forgot it, nor what a person made by hand under a number.
pub(super) fn is_shown(session: &SessionObject) -> bool {
    !session.quarantined && (session.persistent || session.creator == super::setup::CALLER)
}

fn form(objects: &Objects) -> Value {
    let sessions = objects.sessions.iter().filter(|session| is_shown(session)).map(|session| {
        json!({
            "id": session.id,
            "created": session.created_unix,
            "owner": session.owner,
            "token": session.token,
        })
    });
    json!({ "sessions": sessions.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Token;
    use wire::control::ObjectState;

    #[test]
    fn only_what_slurm_made_or_may_use_is_listed() {
        let session = |id, token: &str, creator: &str, persistent, quarantined| SessionObject {
            id,
            state: ObjectState::WELL,
            token: Token::unchecked(token),
            creator: creator.into(),
            owner: 1001,
            created_unix: 1_478_232_104,
            hosts: Vec::new(),
            quarantined,
            persistent,
        };
        let objects = Objects {
            sessions: vec![
                session(75, "347", "SLURM", false, false),
                session(76, "345-kept-1", "SLURM", false, true),
                session(77, "1", "CLI", false, false),
                session(78, "mybuf", "CLI", true, false),
            ],
            ..Objects::default()
        };
        assert_eq!(
            form(&objects),
            json!({"sessions": [
                {"id": 75, "created": 1_478_232_104, "owner": 1001, "token": "347"},
                {"id": 78, "created": 1_478_232_104, "owner": 1001, "token": "mybuf"},
            ]})
        );
    }
}
