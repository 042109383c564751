//! `teardown`: release a job's or a persistent buffer. Slurm repeats it until it succeeds, so data that is still to be
//! staged out is quarantined under another name, unless Slurm is in a hurry: `forebay status` shows it.

use wire::control::{Teardown, TeardownReply};

use super::answer::Answer;
use super::arguments::Arguments;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    let token = match arguments.token() {
        Ok(token) => token,
        Err(failure) => return failure,
    };
    let request = Teardown { hurry: arguments.hurry };
    match control.post::<_, TeardownReply>(&session_path(token, "/teardown"), &request) {
        Ok(reply) => outcome(token, &reply),
        Err(error) if error.is_no_session() => Answer::NoSession,
        Err(error) => Answer::failed(error),
    }
}

fn outcome(token: &str, reply: &TeardownReply) -> Answer {
    match (&reply.kept, &reply.renamed) {
        (None, _) => Answer::Done(String::new()),
        (Some(why), Some(name)) => Answer::Done(format!("kept as {name}: {why}")),
        (Some(why), None) => Answer::failed(format!("session {token} is kept: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use model::Token;

    use super::*;

    #[test]
    fn data_that_is_quarantined_lets_slurm_forget_the_job() {
        let reply = |renamed: Option<&'static str>| TeardownReply {
            kept: Some("the stage_out of a is not complete".into()),
            renamed: renamed.map(Token::literal),
        };
        assert_eq!(
            outcome("7", &reply(Some("7-kept-1"))).into_output(),
            ("kept as 7-kept-1: the stage_out of a is not complete\n".into(), 0)
        );
        assert_eq!(outcome("7", &reply(None)).into_output().1, 1);
    }
}
