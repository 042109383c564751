//! Starts a drainer: by the node service where the folder is in a volume of this job, else as a process of this user's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use daemon::logging::last_words;
use drain::Order;
use drain::namesake::is_drained_by;
use drain::settings::{self, Bursts, SameName, Settings, WORKERS};
use drain::status::Status;

use super::{ask, node_volume, state_of};
use crate::env;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// How long a drainer may take to start: it reads its ledger.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long to wait for a node service that does not answer at the usual place: it may be elsewhere. It looks for
/// requests three times a second.
const UNSEEN_NODE_LIMIT: Duration = Duration::from_secs(5);

pub(super) fn start(settings: &Settings, output: &Output) -> Result<(), Failure> {
    if let Some(why) = drain::overlap::overlap(&settings.from, &settings.to) {
        return Err(Failure::usage(why, "name two folders of which neither is in the other"));
    }
    // The other nodes of the job hear of it: nobody may look at what this command says here.
    begin(settings, output).inspect_err(|failure| refuse(settings, failure))
}

/// Says at the rendezvous why it did not start.
fn refuse(settings: &Settings, failure: &Failure) {
    // Whoever waits there may be another user, as with what drainers say.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let state = state_of(&settings.from, settings.state.as_deref());
    drain::unstarted::refuse(settings, &state, &failure.to_string());
}

fn begin(settings: &Settings, output: &Output) -> Result<(), Failure> {
    must_be_there(&settings.from)?;
    let volume = node_volume(&settings.from, settings.state.as_deref());
    let state = state_of(&settings.from, settings.state.as_deref());
    drain::folder::make(&settings.from, &state).map_err(|error| {
        let message = format!("start the drain of {}: {error:#}", settings.from.display());
        Failure::usage(message, "mend that, then repeat the command")
    })?;
    if let Some(status) = ask(&state, Order::Status)? {
        return already(&status, settings, output);
    }
    may_begin(settings, &state)?;
    if let Some(volume) = volume
        && ask_node(settings, &volume, output)?
    {
        return Ok(());
    }
    start_own(settings, &state, output)
}

/// A folder that is not there yet is a misspelt one, nearly always: nothing would ever arrive. One in the job's own
/// volume is made, though: its script names it once, and each of its nodes needs it.
fn must_be_there(from: &Path) -> Result<(), Failure> {
    let volume = std::env::var_os("FOREBAY_LOCAL").map(PathBuf::from);
    let is_of_volume = |volume: PathBuf| std::path::absolute(from).is_ok_and(|from| from.starts_with(volume));
    match disk::is_folder(from) {
        Ok(true) => Ok(()),
        Ok(false) if volume.is_some_and(is_of_volume) => {
            std::fs::create_dir_all(from).map_err(|error| Failure::local("make", from, &error))
        }
        Ok(false) if disk::exists(from).unwrap_or(false) => Err(Failure::no_input(
            format!("start the drain of {}: it is not a folder", from.display()),
            "correct --from (PERSIST_DIR): a folder is drained as a whole",
        )),
        Ok(false) => Err(Failure::no_input(
            format!("start the drain of {}: there is no such folder", from.display()),
            format!("correct --from (PERSIST_DIR), or `mkdir -p {}` first", render::word(from)),
        )),
        Err(error) => Err(Failure::local("look for", from, &error)),
    }
}

/// Starts the drainer whose folder is `state` as a process of this user's.
fn start_own(settings: &Settings, state: &Path, output: &Output) -> Result<(), Failure> {
    let log = state.join("log");
    let unstarted = |error: &std::io::Error| Failure::local("start the drain of", &settings.from, error);
    let program = daemon::spawn::sibling("forebay-drain").map_err(|error| unstarted(&error))?;
    // Of a folder below the job's volume the drainer would be elsewhere than it is looked for.
    let is_elsewhere = settings.state().canonicalize().ok() != state.canonicalize().ok();
    let settings = &Settings {
        state: is_elsewhere.then(|| state.to_owned()).or(settings.state.clone()),
        ..settings.clone()
    };
    let words = settings.words().map_err(|error| unstarted(&error))?;
    let pid = daemon::spawn::detached(Command::new(program).args(words), &log);
    let pid = pid.map_err(|error| unstarted(&error))?;
    let give_up = Instant::now() + START_LIMIT;
    loop {
        if let Some(status) = ask(state, Order::Status)? {
            say_begun(&status, output);
            return Ok(());
        }
        if !disk::exists(Path::new(&format!("/proc/{pid}"))).unwrap_or(true) || Instant::now() > give_up {
            let last = last_words(&log).unwrap_or_else(|| "it wrote nothing".to_owned());
            return Err(Failure::unavailable(
                format!("start the drain of {}: {last}", settings.from.display()),
                format!("read {}, then repeat the command", log.display()),
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether nothing is owed to another place, which then would be forgotten.
fn may_begin(settings: &Settings, state: &Path) -> Result<(), Failure> {
    let refused = drain::bound::refusal(settings, state).map_err(|error| {
        let message = format!("start the drain of {}: {error:#}", settings.from.display());
        Failure::unavailable(message, "mend that, then repeat the command")
    })?;
    let advice =
        "start that drain again, with its --from and --to, wait for it and stop it, then repeat the command";
    refused.map_or(Ok(()), |why| Err(Failure::usage(why, advice)))
}

/// Has the node service run the drainer; whether it does. It does not where there is none: the folder is none of its
/// volumes then.
fn ask_node(settings: &Settings, volume: &Path, output: &Output) -> Result<bool, Failure> {
    let state = volume.join(settings::OWN_FOLDER);
    let failed = |error: &std::io::Error| Failure::local("ask for the drain of", volume, error);
    let words = settings.request().map_err(|error| failed(&error))?;
    let request = state.join(settings::REQUEST);
    std::fs::create_dir_all(&state)
        .and_then(|()| disk::replace(&request, &words))
        .and_then(|()| drain::start::go_on(&state))
        .map_err(|error| failed(&error))?;
    let is_there = node_answers();
    let give_up = Instant::now() + if is_there { START_LIMIT } else { UNSEEN_NODE_LIMIT };
    loop {
        if let Some(status) = ask(&state, Order::Status)? {
            return already(&status, settings, output).map(|()| true);
        }
        if Instant::now() > give_up {
            if !is_there {
                output.note("forebay: no node service takes the drain: it is started in this session");
                return Ok(false);
            }
            return Err(Failure::unavailable(
                format!("the node service has not started the drain of {}", volume.display()),
                "look at its log on this node",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether somebody may listen at the node service's socket: users may not reach it.
fn node_answers() -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    let connected = std::os::unix::net::UnixStream::connect(env::node_socket());
    !connected.is_err_and(|error| matches!(error.kind(), NotFound | ConnectionRefused))
}

fn already(status: &Status, settings: &Settings, output: &Output) -> Result<(), Failure> {
    let is_folder = is_drained_by(status, &settings.from);
    let other = settings.unlike(status);
    let is_there = is_folder && settings.to.canonicalize().is_ok_and(|to| to == status.to);
    if is_there && !other.is_empty() {
        let from = status.from.display();
        return Err(Failure::usage(
            format!("{from} is drained to {} already, with {}", status.to.display(), other.join(" and ")),
            format!(
                "repeat the command with that, or wait until the drain is done and end it with `forebay drain stop \
                 --from {}` first",
                render::word(&settings.from)
            ),
        ));
    }
    if is_there {
        say_begun(status, output);
        let asked = of_the_start(settings);
        if !asked.is_empty() {
            output.note(&format!(
                "forebay: note: it was started before, and is not told {}: end it with `forebay drain stop --from {}` \
                 and start it again to change that",
                asked.join(" or "),
                render::word(&settings.from)
            ));
        }
        return Ok(());
    }
    let said =
        if is_folder { String::new() } else { format!("{} is not drained: ", settings.from.display()) };
    let also = if is_folder { "" } else { ", or drain a folder that both are in" };
    Err(Failure::usage(
        format!("{said}{} is drained to {} already", status.from.display(), status.to.display()),
        format!(
            "wait until it is done, and end it with `forebay drain stop --from {}`, then repeat the command{also}",
            render::word(&settings.from)
        ),
    ))
}

/// The options that this command was given and that a drainer takes at its start alone. It does not say how it has
/// them.
fn of_the_start(settings: &Settings) -> Vec<&'static str> {
    let given = [
        ("--limit", settings.limit.is_some()),
        ("--cores", settings.cores.is_some()),
        ("--workers", settings.workers != WORKERS),
        ("--same-name", settings.same_name != SameName::Suffix),
        ("--bursts", settings.bursts != Bursts::Wait),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

fn say_begun(status: &Status, output: &Output) {
    output.note(&format!(
        "forebay: {} on {} is drained to {}",
        status.from.display(),
        status.host,
        status.to.display()
    ));
}
