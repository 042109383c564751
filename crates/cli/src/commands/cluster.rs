//! `forebay status` and `rm` on a machine of a cluster: its control service is asked, not one of this user's own.
//! Control decides who may see and do what.

use std::path::Path;
use std::time::Duration;

use std::sync::mpsc::{self, RecvTimeoutError};

use api::CallError;
use api::control::session_path;
use api::endpoint::Endpoint;
use model::phase::Phase;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::control::{CLI, SessionStatus, Status, Teardown, TeardownReply};

use super::status::next::Run;
use super::status::report::Report;
use super::status::{AGAIN, filter};
use super::{programs, rm};
use crate::arguments;
use crate::env;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::service::{PROBE_LIMIT, PROBED, does_not_answer};

/// How long to wait for a control service that is just starting again.
const RESTART: Duration = Duration::from_secs(20);

/// The cluster's control service. Its calls block, so that any signal ends the command.
pub struct Control {
    control: api::control::Control,
    output: Output,
}

impl Control {
    /// The control service that this machine's commands are for.
    pub fn of_cluster(output: &Output) -> Control {
        Control { control: api::control::Control::patient(RESTART), output: output.clone() }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// Control refused, or is not to be reached.
    pub fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, Failure> {
        self.noting(|| self.control.get(path))
    }

    /// `POST path`.
    ///
    /// # Errors
    /// As [`Control::get`].
    pub fn post<B: Serialize, R: DeserializeOwned>(&self, path: &str, body: &B) -> Result<R, Failure> {
        self.noting(|| self.control.post(path, body))
    }

    /// Says so once where the service answers nothing at all while `call` waits for it.
    fn noting<R>(&self, call: impl FnOnce() -> Result<R, CallError>) -> Result<R, Failure> {
        let (ended, waiting) = mpsc::channel::<()>();
        let output = self.output.clone();
        std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(PROBED) {
                let probed = api::control::Control::within(PROBE_LIMIT).get::<Value>("/v1/pools");
                if let Err(CallError::Unreachable { endpoint, .. }) = probed {
                    return output.note(&does_not_answer(&endpoint));
                }
            }
        });
        let reply = call();
        drop(ended);
        reply.map_err(failure)
    }
}

/// Whether commands without a state folder are for a cluster.
pub fn is_meant(dir: Option<&Path>) -> bool {
    dir.is_none() && env::state_folder().is_none() && Endpoint::of_cluster().is_some()
}

/// Shows pools, nodes and the sessions that the caller may see.
///
/// # Errors
/// Control is not to be reached.
pub fn status(arguments: &arguments::Status, output: &Output) -> Result<u8, Failure> {
    let control = Control::of_cluster(output);
    loop {
        let status: Status = control.get("/v1/status")?;
        let status = filter::of(status, arguments)?;
        Report::of(status, output, |_| Run::Cluster).show(output, arguments);
        if !arguments.watch || output.is_unread() {
            return Ok(ExitCode::Success.number());
        }
        std::thread::sleep(AGAIN);
    }
}

/// After which each node has reported what it holds: it does so once a second.
const REPORTED: Duration = Duration::from_secs(2);

/// Destroys a session and what is in it.
///
/// # Errors
/// There is none, a job has it, or control refuses.
pub fn rm(arguments: &arguments::Rm, output: &Output) -> Result<u8, Failure> {
    let control = Control::of_cluster(output);
    let token = &arguments.token;
    let mut known: SessionStatus = control.get(&session_path(token.as_str(), ""))?;
    if rm::is_unreported(&known) && !arguments.discard {
        std::thread::sleep(REPORTED);
        known = control.get(&session_path(token.as_str(), ""))?;
    }
    // Control remembers for a while what has ended.
    if known.phase == Phase::TornDown {
        return Err(Failure::no_buffer(token));
    }
    if known.is_by_hand() && !arguments.force {
        programs::check_unused_by_hand(&known, output)?;
    }
    if known.is_of_job() && !arguments.force {
        return Err(Failure::Refused {
            exit: ExitCode::Busy,
            message: format!("buffer {token} belongs to a job of {}", known.caller),
            advice: format!("end the job with `scancel --hurry {token}`; --force if its manager forgot it"),
        });
    }
    rm::note_owed(&known, output);
    if let Some(question) = rm::question(&known, arguments) {
        rm::decide(rm::asked(&question, output)?.blocking_recv().ok(), &known.token)?;
    }
    if known.busy.is_some() {
        control.post::<_, Value>(&session_path(token.as_str(), "/cancel"), &json!({}))?;
    }
    let hurry = Teardown { hurry: true };
    let reply: TeardownReply = control.post(&session_path(token.as_str(), "/teardown"), &hurry)?;
    if let Some(why) = reply.kept {
        return Err(Failure::unavailable(why, "look into `journalctl -u forebay-control` on its host"));
    }
    output.say(&rm::destroyed(&known, false));
    note_counted_on(&known, output);
    Ok(ExitCode::Success.number())
}

/// A workload manager does not hear of it that a persistent buffer is gone.
fn note_counted_on(known: &SessionStatus, output: &Output) {
    if known.persistent.is_some() && known.caller != CLI {
        output.note(&format!(
            "forebay: note: {} still counts on it: it makes no buffer of that name and holds jobs that use it, until a \
             job with the line `#BB destroy_persistent name={}` has run",
            known.caller, known.token
        ));
    }
}

/// Why a call failed, in this command's terms.
fn failure(error: CallError) -> Failure {
    match error {
        CallError::Refused(error) => Failure::Api(error),
        CallError::Garbled { .. } => Failure::Garbled(error.reason()),
        CallError::Unreachable { .. } => {
            Failure::unavailable(error.to_string(), "or give --dir for buffers of your own")
        }
        CallError::Unproven(_) => Failure::unavailable(error.to_string(), "then repeat the command"),
    }
}
