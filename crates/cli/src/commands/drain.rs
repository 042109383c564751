//! `forebay drain`: the drainers of node-local flash. They are found by their folders; no service is asked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use daemon::logging::last_words;
use drain::rendezvous::SILENCE_MAX;
use drain::settings::{self, Settings};
use drain::status::{Answer, Status, Trouble};
use drain::wait::{self, Ending, Sums, Watcher};
use drain::{Order, order};

use crate::arguments::{Drain, DrainHere, DrainOf};
use crate::env;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// How long a drainer may take to start: it reads its ledger.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long a node service may take that does not answer where it is looked for: it may be elsewhere. It looks for
/// requests three times a second.
const UNSEEN_NODE_LIMIT: Duration = Duration::from_secs(5);

/// As many files as are listed in an error.
const LISTED_MAX: usize = 20;

/// Runs the command; the result is the process's exit status.
///
/// # Errors
/// There is no such drainer, or it did not do it.
pub fn run(arguments: &Drain, output: &Output) -> Result<u8, Failure> {
    match arguments {
        Drain::Start(settings) => start(settings, output),
        Drain::Status(of) => status(of, output),
        Drain::Wait { of, timeout } => wait_for(of, *timeout, output).map(drop),
        Drain::Commit { name, of, timeout } => commit(name, of, *timeout, output),
        Drain::Receipt(of) => receipt(of, output),
        Drain::Pause(here) => tell(here, Order::Pause, "is paused", output),
        Drain::Resume(here) => tell(here, Order::Resume, "goes on", output),
        Drain::Stop(here) => tell(here, Order::Stop, "has ended", output),
    }
    .map(|()| ExitCode::Success.number())
}

fn start(settings: &Settings, output: &Output) -> Result<(), Failure> {
    let volume = node_volume(&settings.from, settings.state.as_deref());
    let state = state_of(&settings.from, settings.state.as_deref());
    std::fs::create_dir_all(&state).map_err(|error| Failure::local("make", &state, &error))?;
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

/// Starts the drainer whose folder is `state` as a process of this user's.
fn start_own(settings: &Settings, state: &Path, output: &Output) -> Result<(), Failure> {
    let log = state.join("log");
    let unstarted = |error: &std::io::Error| Failure::local("start the drain of", &settings.from, error);
    let program = daemon::spawn::sibling("forebay-drain").map_err(|error| unstarted(&error))?;
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
    if settings.to.canonicalize().is_ok_and(|to| to == status.to) {
        say_begun(status, output);
        return Ok(());
    }
    Err(Failure::usage(
        format!("{} is drained to {} already", status.from.display(), status.to.display()),
        format!(
            "wait until it is done, or end it with `forebay drain stop --from {}`, then repeat the command",
            render::word(&status.from)
        ),
    ))
}

fn say_begun(status: &Status, output: &Output) {
    output.note(&format!(
        "forebay: {} on {} is drained to {}",
        status.from.display(),
        status.host,
        status.to.display()
    ));
}

fn status(of: &DrainOf, output: &Output) -> Result<(), Failure> {
    let folder = settings::rendezvous(&of.to, of.session.as_deref());
    let statuses = drain::rendezvous::Rendezvous::new(folder).statuses();
    let statuses = match statuses {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::local("read the drainers' files in", &of.to, &error));
        }
        Err(_) => return Err(nobody(of)),
        Ok(statuses) => statuses,
    };
    if of.json {
        for status in &statuses {
            output.object(status);
        }
        return Ok(());
    }
    for status in &statuses {
        output.say(&format!("{}{}", line(status), silence(status).unwrap_or_default()));
        for trouble in status.troubles.iter().take(LISTED_MAX) {
            output.say(&format!("  {}; {}", trouble.message, trouble.advice));
        }
    }
    Ok(())
}

fn receipt(of: &DrainOf, output: &Output) -> Result<(), Failure> {
    let folder = settings::rendezvous(&of.to, of.session.as_deref());
    let files = drain::rendezvous::Rendezvous::new(folder).files().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => nobody(of),
        _ => Failure::local("read the drainers' logs in", &of.to, &error),
    })?;
    for ((host, path), line) in files {
        if of.json {
            output.object(&line);
            continue;
        }
        let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
        let why = text("message");
        let rest = if why.is_empty() { text("target") } else { why };
        output.say(&format!("{} {} {} {host}:{path} {rest}", text("event"), text("crc32c"), line["size"]));
    }
    Ok(())
}

fn line(status: &Status) -> String {
    let mut line = format!("{}: {} of {} files done", status.host, status.done, status.enqueued);
    if status.bytes_left > 0 {
        line += &format!(", {} to copy", render::bytes(status.bytes_left));
    }
    if let Some(seconds) = status.seconds_left().filter(|seconds| *seconds > 0) {
        line += &format!(", about {seconds} s");
    }
    for (count, what) in [(status.failed, "failed"), (status.open, "open for writing")] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    if status.paused {
        line += ", paused";
    }
    if status.gives_way {
        line += ", waits while the job writes";
    }
    line
}

/// What is said of a drainer that is not there any more, or may not be: its figures are old.
fn silence(status: &Status) -> Option<String> {
    let seconds = status.silence().as_secs();
    if status.ended {
        return Some(format!("; it was stopped {seconds} s ago"));
    }
    let why = match status.silence() > SILENCE_MAX {
        _ if is_gone(status) => format!("as of {seconds} s ago: no drain runs there any more; "),
        true => format!("as of {seconds} s ago: it has not been heard of since; if it does not run, "),
        false => return None,
    };
    Some(format!("; {why}{} on {} starts it again", start_command(status), status.host))
}

/// Whether a drainer of this node has ended without a word.
fn is_gone(status: &Status) -> bool {
    let is_silent = || matches!(order(&state_of(&status.from, None), Order::Status), Ok(None));
    // One that has ended and that nobody has waited for yet has no program any more.
    let program = || std::fs::read_link(format!("/proc/{}/exe", status.pid));
    let is_ended = || program().is_err_and(|error| disk::is_absent(&error));
    status.host == settings::own_host() && is_silent() && is_ended()
}

/// The command that starts a drainer again, on its node and in its job.
fn start_command(status: &Status) -> String {
    let (from, to) = (render::word(&status.from), render::word(&status.to));
    format!("`forebay drain start --from {from} --to {to}`")
}

fn wait_for(of: &DrainOf, timeout: Option<u64>, output: &Output) -> Result<Vec<Answer>, Failure> {
    let folder = settings::rendezvous(&of.to, of.session.as_deref());
    let mut told = Told { output, last: None };
    let ended = wait::wait(&folder, timeout.map(Duration::from_secs), &mut told);
    let ended = ended.map_err(|error| Failure::local("read the drainers' files in", &of.to, &error))?;
    if let Ending::Answered(_) = ended {
        let written = drain::rendezvous::Rendezvous::new(folder).write_receipt();
        written.map_err(|error| Failure::local("write the receipt in", &of.to, &error))?;
    }
    match ended {
        Ending::Nobody => Err(nobody(of)),
        Ending::Silent(silent) => Err(unanswered(&silent, of)),
        Ending::Answered(answers) if answers.iter().all(Answer::is_whole) => {
            output.say("All files moved");
            Ok(answers)
        }
        Ending::Answered(answers) => Err(not_whole(&answers, output)),
    }
}

/// What to do about drainers that do not answer.
fn unanswered(silent: &[Status], of: &DrainOf) -> Failure {
    let hosts: Vec<&str> = silent.iter().map(|status| status.host.as_str()).collect();
    let again: BTreeSet<String> = silent.iter().map(start_command).collect();
    let again = again.into_iter().collect::<Vec<String>>().join(" or ");
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!("the drainers of {} have not answered in time", hosts.join(", ")),
        advice: format!(
            "see `forebay drain status --to {}`; what is on these nodes stays there, and {again} on a node starts \
             one that does not run",
            render::word(&of.to)
        ),
    }
}

/// Names what is not on the PFS.
fn not_whole(answers: &[Answer], output: &Output) -> Failure {
    let failed: Vec<(&str, &Trouble)> =
        answers.iter().flat_map(|answer| answer.failed.iter().map(|t| (answer.host.as_str(), t))).collect();
    let open: Vec<(&str, &str)> = answers
        .iter()
        .flat_map(|answer| answer.open.iter().map(|path| (answer.host.as_str(), path.as_str())))
        .collect();
    for (host, trouble) in failed.iter().take(LISTED_MAX) {
        output.note(&format!("forebay: {host}: {}; {}", trouble.message, trouble.advice));
    }
    for (host, path) in open.iter().take(LISTED_MAX) {
        output.note(&format!("forebay: {host}: {path} is open for writing"));
    }
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!("{} files could not be drained, {} are open for writing", failed.len(), open.len()),
        advice: "they are kept on their nodes and tried again; mend the causes above and wait again".into(),
    }
}

fn commit(name: &str, of: &DrainOf, timeout: Option<u64>, output: &Output) -> Result<(), Failure> {
    let plain = Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if name.is_empty() || !plain {
        return Err(Failure::usage(
            format!("`{name}` is no name below {}", of.to.display()),
            "name a file or folder there, without `..`",
        ));
    }
    let answers = wait_for(of, timeout, output)?;
    let made = wait::commit(&of.to, name, &answers);
    for path in made.map_err(|error| Failure::local("publish the marker in", &of.to, &error))? {
        output.say(&format!("forebay: {} is published", path.display()));
    }
    Ok(())
}

fn tell(here: &DrainHere, what: Order, done: &str, output: &Output) -> Result<(), Failure> {
    let state = state_of(&here.from, here.state.as_deref());
    let Some(status) = ask(&state, what)? else {
        return Err(Failure::no_input(
            format!("nothing drains {}", here.from.display()),
            format!("start it with `forebay drain start --from {} --to FOLDER`", render::word(&here.from)),
        ));
    };
    output.say(&format!("forebay: the drain of {} {done}; {}", here.from.display(), line(&status)));
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

/// Prints Spectral's counter lines.
struct Told<'a> {
    output: &'a Output,
    last: Option<Sums>,
}

impl Watcher for Told<'_> {
    fn sums(&mut self, sums: Sums) {
        if self.last.replace(sums) == Some(sums) {
            return;
        }
        let Sums { enqueued, dequeued, done, failed } = sums;
        let failed = if failed > 0 { format!(" Failed:{failed}") } else { String::new() };
        self.output.say(&format!("Enqueued:{enqueued} Dequeued:{dequeued} Done:{done}{failed}"));
    }

    fn silent(&mut self, status: &Status) {
        self.output.note(&format!(
            "forebay: the drainer of {} has not been heard of for a minute; what is there stays there until the \
             node is back",
            status.host
        ));
    }

    fn late(&mut self, status: &Status, seconds_left: u64) {
        self.output.note(&format!(
            "forebay: WARNING: {} has {} to drain and will not be ready by the job's time limit: about {} s are missing; \
             what is left then stays on the node and is drained after the job",
            status.host,
            render::bytes(status.bytes_left),
            seconds_left
        ));
    }
}
