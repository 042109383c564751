//! What the drainers of a session do, and what became of each file, as their folders say.

use drain::namesake::is_running;
use drain::settings;
use drain::status::{SILENCE_MAX, Status};
use drain::{Order, order};

use super::{LISTED_MAX, nobody, state_of};
use crate::arguments::DrainOf;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

pub(super) fn status(of: &DrainOf, output: &Output) -> Result<(), Failure> {
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

pub(super) fn receipt(of: &DrainOf, output: &Output) -> Result<(), Failure> {
    let folder = settings::rendezvous(&of.to, of.session.as_deref());
    let files = drain::rendezvous::Rendezvous::new(folder).files().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => nobody(of),
        _ => Failure::local("read the drainers' logs in", &of.to, &error),
    })?;
    for ((host, _), line) in files {
        if of.json {
            output.object(&line);
            continue;
        }
        // A path that is no UTF-8 is a list of its bytes.
        let text = |key: &str| match &line[key] {
            serde_json::Value::Null => "-".to_owned(),
            value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        };
        let why = text("message");
        let rest = if why.is_empty() { text("target") } else { why };
        output.say(&format!(
            "{} {} {} {host}:{} {rest}",
            text("event"),
            text("crc32c"),
            line["size"],
            text("path")
        ));
    }
    Ok(())
}

pub(super) fn line(status: &Status) -> String {
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
    if status.refused {
        return Some(format!("; it could not start {seconds} s ago"));
    }
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
    status.host == settings::own_host() && is_silent() && !is_running(status.pid)
}

/// The command that starts a drainer again, on its node and in its job.
pub(super) fn start_command(status: &Status) -> String {
    let (from, to) = (render::word(&status.from), render::word(&status.to));
    format!("`forebay drain start --from {from} --to {to}`")
}
