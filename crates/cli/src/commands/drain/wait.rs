//! Waits until all drainers of a session have moved everything, and publishes what is whole.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use drain::receipt::Receipt;
use drain::rendezvous::Rendezvous;
use drain::settings;
use drain::status::{Answer, Status, Trouble};
use drain::wait::{self, Ending, Sums, Watcher};

use super::status::start_command;
use super::{LISTED_MAX, nobody, unheard};
use crate::arguments::DrainOf;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

pub(super) fn wait_for(of: &DrainOf, timeout: Option<u64>, output: &Output) -> Result<Vec<Answer>, Failure> {
    let folder = settings::rendezvous(&of.to, of.session.as_deref());
    let mut told = Told { output, last: None };
    let ended = wait::wait(&folder, timeout.map(Duration::from_secs), &mut told);
    let ended = ended.map_err(|error| failed(of, "read the drainers' files in", &error))?;
    match ended {
        Ending::Nobody => Err(nobody(of)),
        Ending::Silent(silent) => Err(unanswered(&silent, of)),
        Ending::Stopped(stopped) => Err(not_running(&stopped)),
        Ending::Answered(answers) => {
            account(of, Rendezvous::new(folder), &answers, output)?;
            output.say("All files moved");
            Ok(answers)
        }
    }
}

/// Writes the receipt of what was answered; fails where not everything is on the PFS, or not in the receipt.
fn account(of: &DrainOf, session: Rendezvous, answers: &[Answer], output: &Output) -> Result<(), Failure> {
    if let Some(warning) = unheard::warning(of, answers) {
        output.note(&warning);
    }
    let receipt = session.write_receipt(answers);
    let receipt = receipt.map_err(|error| failed(of, "write the receipt in", &error))?;
    if !answers.iter().all(Answer::is_whole) {
        return Err(not_whole(answers, output));
    }
    if receipt.left_out > 0 {
        let (files, path) = (receipt.left_out, receipt.path.display());
        output.note(&format!(
            "forebay: {files} files are without an owner, attribute or time that the PFS does not take: `left_out` in \
             {path}"
        ));
    }
    if receipt.sampled > 0 {
        output.note(&format!(
            "forebay: of {} large files samples were read back, not all: `sampled` in {}",
            receipt.sampled,
            receipt.path.display()
        ));
    }
    if receipt.short.is_empty() { Ok(()) } else { Err(unlogged(&receipt)) }
}

/// What to do where logs do not have what their drainers say: somebody has cut or replaced them.
fn unlogged(receipt: &Receipt) -> Failure {
    let hosts = receipt.short.join(", ");
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!(
            "the logs of {hosts} do not tell of all files that these nodes have drained: {} is not complete",
            receipt.path.display()
        ),
        advice:
            "on such a node `forebay drain stop --from FOLDER`, and starting it again as before, has its log \
                 written anew; then repeat the command"
                .into(),
    }
}

/// The folder on the PFS could not be worked on; what to do where it has no room for what is asked and answered there.
fn failed(of: &DrainOf, action: &str, error: &std::io::Error) -> Failure {
    if !disk::is_full(error) {
        return Failure::local(action, &of.to, error);
    }
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!(
            "{error}: the file system of {}, or your share of it (quota), is full: the drainers can neither copy to it \
             nor answer there",
            of.to.display()
        ),
        advice: "make room there, or ask its operator for a larger quota, then repeat the command; what is not drained \
                 is kept on its nodes"
            .into(),
    }
}

/// The nodes of drainers, and the commands that start them again.
fn hosts_and_starts(drainers: &[Status]) -> (String, String) {
    let hosts: Vec<&str> = drainers.iter().map(|status| status.host.as_str()).collect();
    let again: BTreeSet<String> = drainers.iter().map(start_command).collect();
    (hosts.join(", "), again.into_iter().collect::<Vec<String>>().join(" or "))
}

/// What to do about drainers that were stopped: they answer nobody.
fn not_running(stopped: &[Status]) -> Failure {
    let (hosts, again) = hosts_and_starts(stopped);
    let owed: usize = stopped.iter().map(|status| status.enqueued.saturating_sub(status.done)).sum();
    let owed = match owed {
        0 => "nobody looks what was written there since".to_owned(),
        owed => format!("nothing copies what is there, at least {owed} of its files are not drained"),
    };
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!("the drainers of {hosts} were stopped: {owed}"),
        advice: format!("{again} on such a node goes on, then repeat the command"),
    }
}

/// What to do about drainers that do not answer.
fn unanswered(silent: &[Status], of: &DrainOf) -> Failure {
    let paused: Vec<Status> =
        silent.iter().filter(|status| status.paused && !status.ended).cloned().collect();
    if let [first, ..] = &paused[..] {
        let hosts: Vec<&str> = paused.iter().map(|status| status.host.as_str()).collect();
        return Failure::Refused {
            exit: ExitCode::StageOut,
            message: format!("the drainers of {} are paused: nothing is copied there", hosts.join(", ")),
            advice: format!("{} on such a node goes on, then repeat the command", resume_command(first)),
        };
    }
    let (hosts, again) = hosts_and_starts(silent);
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!("the drainers of {hosts} have not answered in time"),
        advice: format!(
            "see `forebay drain status --to {}`; what is on these nodes stays there, and {again} on a node starts \
             one that does not run",
            render::word(&of.to)
        ),
    }
}

fn resume_command(status: &Status) -> String {
    format!("`forebay drain resume --from {}`", render::word(&status.from))
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
    // Of a node that could not start, or whose flash failed.
    let nodes = failed.iter().filter(|(_, trouble)| trouble.path == ".").count();
    let files = failed.len() - nodes;
    let mut undrained: Vec<String> =
        (nodes > 0).then(|| format!("what is on {nodes} nodes")).into_iter().collect();
    undrained.extend((files > 0 || nodes == 0).then(|| format!("{files} files")));
    Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!(
            "{} could not be drained, {} files are open for writing",
            undrained.join(" and "),
            open.len()
        ),
        advice: "they are kept on their nodes; mend the causes above and wait again".into(),
    }
}

pub(super) fn commit(
    name: &str,
    of: &DrainOf,
    (timeout, empty): (Option<u64>, bool),
    output: &Output,
) -> Result<(), Failure> {
    let Some(name) = &drain::commit::plain(name) else {
        return Err(Failure::usage(
            format!("`{name}` is not a name below {}", of.to.display()),
            "name a file or folder there, without `..`",
        ));
    };
    if name == drain::commit::LATEST {
        return Err(Failure::usage(
            format!("`{name}` in {} is the link that commits make: it would lead to itself", of.to.display()),
            "name the file or folder of the job that is to be published",
        ));
    }
    let answers = wait_for(of, timeout, output)?;
    let rendezvous = settings::rendezvous(&of.to, of.session.as_deref());
    let has = wait::has_drained(&rendezvous, &of.to, Path::new(name));
    if !empty && !has.map_err(|error| Failure::local("read the drainers' logs in", &of.to, &error))? {
        return Err(Failure::no_input(
            format!("nothing that is called {name} was drained to {} in this session", of.to.display()),
            format!(
                "`forebay drain receipt --to {}` lists the names, and --empty publishes one of no file and no folder",
                render::word(&of.to)
            ),
        ));
    }
    let made = drain::commit::commit(&rendezvous, &of.to, name, &answers);
    for path in made.map_err(|error| not_published(&of.to, &error))? {
        output.say(&format!("forebay: {} is published", path.display()));
    }
    Ok(())
}

fn not_published(to: &Path, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(
            error.to_string(),
            "remove or rename it (on the node too, if the job wrote it), then commit again",
        ),
        _ => Failure::local("publish the marker in", to, error),
    }
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

    fn paused(&mut self, status: &Status) {
        self.output.note(&format!(
            "forebay: the drainer of {} is paused: nothing is copied until {} there",
            status.host,
            resume_command(status)
        ));
    }

    fn late(&mut self, status: &Status, seconds_left: u64) {
        self.output.note(&format!(
            "forebay: WARNING: {} has {} to drain and will not be ready by the job's time limit: about {seconds_left} \
             s are missing; what is left then stays on the node and is drained after the job",
            status.host,
            render::bytes(status.bytes_left)
        ));
    }
}
