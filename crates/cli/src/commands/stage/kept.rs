//! `forebay stage retry` on a machine of a cluster: what a job's session owes is staged out again, then what was set
//! aside is released. A job's session is left to the job's end.

use api::control::session_path;
use model::Token;
use model::phase::{Direction, Function, Phase, StageState};
use serde_json::json;
use wire::control::{Change, SessionStatus, StageStatus, Teardown, TeardownReply};

use super::super::cluster::Control;
use super::client::Client;
use crate::arguments::{Common, Which};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::life::{Ending, Told};
use crate::output::Output;
use crate::summary::Summary;

/// Retries; the result is the process's exit status.
///
/// # Errors
/// There is no such buffer, it has nothing that could be staged out, or control refuses.
pub async fn retry(token: &Token, output: &Output) -> Result<u8, Failure> {
    let control = Control::of_cluster(output);
    let status: SessionStatus = control.get(&session_path(token.as_str(), ""))?;
    if let Some(refusal) = refusal(&status) {
        return Err(refusal);
    }
    if status.persistent.is_some() && status.quarantined.is_none() {
        // What is in it is its owner's until it is destroyed: only what was asked for and failed is done again.
        let common = Common { token: Some(token.clone()), persistent: None, wait: true, json: output.json() };
        let which = Which { path: None, common };
        return super::change(&Client::Cluster(control), &which, Change::Retry, output).await;
    }
    stage_out(&control, token, output)
}

/// Why nothing of it is to be staged out; control would say of some of these that all is out.
fn refusal(status: &SessionStatus) -> Option<Failure> {
    let token = &status.token;
    let of = |direction| status.stages.iter().filter(move |stage| stage.direction == direction);
    let is_in_failed = || of(Direction::In).any(|stage| stage.state == StageState::Failed);
    let is_held = || is_in_failed() || matches!(status.failed, Some((Function::DataIn, _)));
    if status.is_of_job() && status.phase < Phase::Mounted && is_held() {
        return Some(Failure::no_input(
            format!(
                "the stage-in of buffer {token} failed and its job has not run: there is nothing to stage out"
            ),
            format!(
                "repair what `forebay status` says of it, end the job with `scancel --hurry {token}` and submit it \
                 again: Slurm does not repeat a failed stage-in"
            ),
        ));
    }
    if of(Direction::Out).next().is_some() {
        return None;
    }
    let release = match status.is_of_job() {
        true => format!("end its job with `scancel --hurry {token}`"),
        false => format!("`forebay rm {token}`"),
    };
    Some(Failure::usage(
        format!("buffer {token} has no stage_out"),
        format!("copy what you need from it by hand, then {release}"),
    ))
}

fn stage_out(control: &Control, token: &Token, output: &Output) -> Result<u8, Failure> {
    let path = |function| session_path(token.as_str(), function);
    let done: SessionStatus = match control.post(&path("/data_out"), &json!({})) {
        Ok(done) => done,
        Err(Failure::Api(error)) => {
            let status: SessionStatus = control.get(&path(""))?;
            let failed =
                |stage: &StageStatus| stage.direction == Direction::Out && stage.state == StageState::Failed;
            if !status.stages.iter().any(failed) {
                return Err(Failure::Api(error));
            }
            let kept = status.kept.clone().unwrap_or_else(|| error.message.clone());
            let told = Told { status: Some(status), kept: Some(kept), ..Told::default() };
            return Ok(summed_up(token, &Ending::StageOutFailed(error), &told, output));
        }
        Err(failure) => return Err(failure),
    };
    let quarantined = done.quarantined.is_some();
    if quarantined {
        let patient = Teardown { hurry: false };
        control.post::<_, TeardownReply>(&path("/teardown"), &patient)?;
    }
    if output.json() {
        let told = Told { status: Some(done), ..Told::default() };
        return Ok(summed_up(token, &Ending::Completed, &told, output));
    }
    if quarantined {
        output.say(&format!("forebay: buffer {token} is staged out and released"));
    } else {
        output.say(&format!(
            "forebay: buffer {token} is staged out; end its job with `scancel --hurry {token}`"
        ));
    }
    Ok(ExitCode::Success.number())
}

/// Prints the summary; the result is the process's exit status.
fn summed_up(token: &Token, ending: &Ending, told: &Told, output: &Output) -> u8 {
    let summary = Summary::new(token, ending, told, output);
    output.say(&summary.text());
    if output.json() {
        output.object(&summary);
    }
    summary.exit_status()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn what_cannot_be_staged_out_is_refused_with_how_the_buffer_is_released() {
        let mut status = fixtures::session();
        assert!(refusal(&status).is_none());
        status.caller = "slurm".into();
        status.stages.clear();
        let told = refusal(&status).unwrap();
        assert_eq!(told.exit_code(), ExitCode::Usage);
        assert_eq!(
            told.to_string(),
            "buffer 3 has no stage_out; copy what you need from it by hand, then end its job with `scancel --hurry 3`"
        );
        status.quarantined = Some(Token::literal("3"));
        assert!(refusal(&status).unwrap().to_string().ends_with("by hand, then `forebay rm 3`"));
    }
}
