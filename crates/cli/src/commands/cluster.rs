//! `forebay status`, `rm` and `stage retry` on a machine of a cluster: its control service is asked, not one of this
//! user's own. Control decides who may see and do what.

use std::path::Path;
use std::time::Duration;

use api::CallError;
use api::control::{Control, session_path};
use api::endpoint::Endpoint;
use serde_json::{Value, json};
use wire::control::{CLI, SessionStatus, Status, Teardown, TeardownReply};

use super::status::AGAIN;
use super::status::report::{Report, Run};
use super::{checked_token, rm};
use crate::arguments;
use crate::env;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

/// How long a control service that is just starting again is waited for.
pub const RESTART: Duration = Duration::from_secs(20);

/// Whether commands without a state folder are for a cluster.
pub fn is_meant(dir: Option<&Path>) -> bool {
    dir.is_none() && env::state_folder().is_none() && Endpoint::of_cluster().is_some()
}

/// Shows pools, nodes and the sessions that the caller may see.
///
/// # Errors
/// Control is not to be reached.
pub fn status(arguments: &arguments::Status, output: &Output) -> Result<u8, Failure> {
    let control = Control::patient(RESTART);
    loop {
        let status: Status = control.get("/v1/status").map_err(failure)?;
        Report::of(status, output, |_| Run::Cluster).show(output, arguments.json);
        if !arguments.watch {
            return Ok(ExitCode::Success.number());
        }
        std::thread::sleep(AGAIN);
        if !arguments.json {
            output.say("");
        }
    }
}

/// Destroys a session and what is in it.
///
/// # Errors
/// There is none, a job has it, or control refuses.
pub fn rm(arguments: &arguments::Rm, output: &Output) -> Result<u8, Failure> {
    let control = Control::patient(RESTART);
    let token = checked_token(&arguments.token)?;
    let known: SessionStatus = control.get(&session_path(token, "")).map_err(failure)?;
    let managed = known.caller != CLI && known.persistent.is_none() && known.quarantined.is_none();
    if managed && !arguments.force {
        return Err(Failure::Refused {
            exit: ExitCode::Busy,
            message: format!("buffer {token} belongs to a job of {}", known.caller),
            advice: format!("end the job with `scancel --hurry {token}`; --force if its manager forgot it"),
        });
    }
    if let Some(owed) = rm::owed(&known) {
        output.note(&owed);
    }
    if known.busy.is_some() {
        control.post::<_, Value>(&session_path(token, "/cancel"), &json!({})).map_err(failure)?;
    }
    let hurry = Teardown { hurry: true };
    let reply: TeardownReply = control.post(&session_path(token, "/teardown"), &hurry).map_err(failure)?;
    if let Some(why) = reply.kept {
        return Err(Failure::unavailable(why, "look into `journalctl -u forebay-control` on its host"));
    }
    output.say(&rm::destroyed(&known));
    Ok(ExitCode::Success.number())
}

/// Stages out what is not staged out yet, then releases what was quarantined. A job's session is left to the job's end.
///
/// # Errors
/// There is none, a stage fails again, or control refuses.
pub fn retry(token: &str, json: bool, output: &Output) -> Result<u8, Failure> {
    let control = Control::patient(RESTART);
    let path = |function| session_path(token, function);
    checked_token(token)?;
    let done: SessionStatus = control.post(&path("/data_out"), &json!({})).map_err(failure)?;
    let quarantined = done.quarantined.is_some();
    if quarantined {
        let patient = Teardown { hurry: false };
        control.post::<_, TeardownReply>(&path("/teardown"), &patient).map_err(failure)?;
    }
    if json {
        output.object(&done);
    } else if quarantined {
        output.say(&format!("forebay: buffer {token} is staged out and released"));
    } else {
        output.say(&format!(
            "forebay: buffer {token} is staged out; end its job with `scancel --hurry {token}`"
        ));
    }
    Ok(ExitCode::Success.number())
}

/// Why a call failed, in this command's terms.
pub fn failure(error: CallError) -> Failure {
    match error {
        CallError::Refused(error) => Failure::Api(error),
        CallError::Garbled { .. } => Failure::Garbled(error.reason()),
        CallError::Unreachable { .. } => {
            Failure::unavailable(error.to_string(), "or give --dir for buffers of your own")
        }
        CallError::Unproven(_) => Failure::unavailable(error.to_string(), "then repeat the command"),
    }
}
