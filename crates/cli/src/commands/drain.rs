//! `forebay drain`: the drainers of node-local flash. They are found by their folders; no service is asked.

mod start;
mod status;
mod unheard;
mod wait;

use std::path::{Path, PathBuf};

use drain::settings;
use drain::status::Status;
use drain::{Order, order};

use crate::arguments::{Drain, DrainHere, DrainOf};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// As many files as are listed in an error.
const LISTED_MAX: usize = 20;

/// Runs the command; the result is the process's exit status.
///
/// # Errors
/// There is no such drainer, or it did not do it.
pub fn run(arguments: &Drain, output: &Output) -> Result<u8, Failure> {
    match arguments {
        Drain::Start(settings) => start::start(settings, output),
        Drain::Status(of) => status::status(of, output),
        Drain::Wait { of, timeout } => wait::wait_for(of, *timeout, output).map(drop),
        Drain::Commit { name, of, timeout, empty } => wait::commit(name, of, (*timeout, *empty), output),
        Drain::Receipt(of) => status::receipt(of, output),
        Drain::Pause(here) => tell(here, Order::Pause, "is paused", output),
        Drain::Resume(here) => tell(here, Order::Resume, "goes on", output),
        Drain::Stop(here) => tell(here, Order::Stop, "has ended", output),
    }
    .map(|()| ExitCode::Success.number())
}

/// The volume of this node that the drained folder is in, if it is: the node service then runs the drainer, which goes
/// on when the job is over.
fn node_volume(from: &Path, state: Option<&Path>) -> Option<PathBuf> {
    let volume = PathBuf::from(std::env::var_os("FOREBAY_LOCAL")?).canonicalize().ok()?;
    let from = from.canonicalize().ok()?;
    (state.is_none() && from.starts_with(&volume)).then_some(volume)
}

/// The folder of the drainer that drains `from`.
fn state_of(from: &Path, state: Option<&Path>) -> PathBuf {
    let own = || node_volume(from, state).as_deref().unwrap_or(from).join(settings::OWN_FOLDER);
    state.map_or_else(own, Path::to_owned)
}

fn tell(here: &DrainHere, what: Order, done: &str, output: &Output) -> Result<(), Failure> {
    let state = state_of(&here.from, here.state.as_deref());
    let Some(status) = ask(&state, what)? else {
        return Err(Failure::no_input(
            format!("nothing drains {}", here.from.display()),
            format!("start it with `forebay drain start --from {} --to FOLDER`", render::word(&here.from)),
        ));
    };
    output.say(&format!("forebay: the drain of {} {done}; {}", here.from.display(), status::line(&status)));
    Ok(())
}

fn ask(state: &Path, what: Order) -> Result<Option<Status>, Failure> {
    order(state, what).map_err(|error| {
        Failure::unavailable(
            format!("ask the drainer in {}: {error:#}", state.display()),
            format!("read {}", state.join("log").display()),
        )
    })
}

fn nobody(of: &DrainOf) -> Failure {
    let to = render::word(&of.to);
    Failure::no_input(
        format!("nothing has been drained to {} in this session", of.to.display()),
        format!("start it with `forebay drain start --from FOLDER --to {to}` on each node of --session"),
    )
}
