//! `forebay rm`: the explicit end of a buffer, whatever is in it.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use model::Token;
use model::phase::{Direction, StageState};
use tokio::sync::oneshot::{self, Receiver};
use wire::control::{InstanceStatus, SessionStatus};

use super::{Context, programs};
use crate::arguments::Rm;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;
use crate::session::Session;

/// After which control has asked each node of this machine again how it is.
const REPORTED: Duration = Duration::from_millis(700);

/// Destroys a buffer; the result is the process's exit status.
///
/// # Errors
/// There is no such buffer, another process works on it, or programs have files open in it.
pub async fn run(arguments: &Rm, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let token = &arguments.token;
    let context = Context::open(output, dir)?;
    let lock = context.records.lock(token)?;
    context.service.ensure_up().await?;
    let removed = remove(&context, token, arguments).await;
    if let Ok(Some(line)) = &removed {
        context.output.say(line);
    }
    if removed.is_ok() {
        context.records.remove(lock, token);
    }
    context.service.stop_if_idle().await;
    match removed? {
        Some(_) => Ok(ExitCode::Success.number()),
        None => Err(Failure::no_buffer(token)),
    }
}

/// What was destroyed, in one line; `None` where there was nothing.
async fn remove(context: &Context, token: &Token, arguments: &Rm) -> Result<Option<String>, Failure> {
    let (session, force) = (context.session(token), arguments.force);
    // Only nodes that have reported can say how much is destroyed.
    context.service.status().await?;
    let Some(status) = reported(&session).await? else { return Ok(None) };
    agree(context, &status, arguments).await?;
    context.end_leftover(token).await?;
    if !force {
        programs::check_unmountable(&status, ", or give --force, which destroys what they work on")?;
    }
    if status.busy.is_some() {
        session.call("/cancel", &serde_json::json!({})).await?;
    }
    if status.activations.iter().any(|activation| activation.mounted) {
        session.post_run(force).await.map_err(|failure| match failure {
            Failure::Api(error) if !force => Failure::Refused {
                exit: ExitCode::Busy,
                message: error.message,
                advice: format!(
                    "close what uses it, or `{}`",
                    context.output.command(&format!("rm {token} --force"))
                ),
            },
            other => other,
        })?;
    }
    match session.teardown(true).await? {
        None => {
            let left = left(context, &status);
            Ok(Some(if left.is_empty() { destroyed(&status, true) } else { given_up(token, &left) }))
        }
        Some(why) => {
            Err(Failure::unavailable(why, "read the logs in the state folder, then repeat the command"))
        }
    }
}

/// Goes on where nothing is given up that was asked for, or its user agrees to that.
async fn agree(context: &Context, status: &SessionStatus, arguments: &Rm) -> Result<(), Failure> {
    note_owed(status, &context.output);
    let Some(question) = question(status, arguments) else { return Ok(()) };
    let answer = tokio::select! {
        answer = asked(&question, &context.output)? => answer.ok(),
        () = context.interrupts.reached(1) => None,
    };
    decide(answer, &status.token)
}

/// The session, with what its nodes have said since it was written to just now.
async fn reported(session: &Session<'_>) -> Result<Option<SessionStatus>, Failure> {
    let is_empty =
        |status: &SessionStatus| status.instance.as_ref().is_some_and(|instance| instance.used_bytes == 0);
    let status = session.status_if_known().await?;
    if !status.as_ref().is_some_and(is_empty) {
        return Ok(status);
    }
    tokio::time::sleep(REPORTED).await;
    session.status_if_known().await
}

/// What was to be staged out and is not.
fn undrained(status: &SessionStatus) -> Vec<&str> {
    let outs = status.stages.iter().filter(|stage| stage.direction == Direction::Out);
    outs.filter(|stage| stage.state != StageState::Complete).map(|stage| stage.source.as_str()).collect()
}

/// Whether what is to be staged out may only not be reported yet.
pub(super) fn is_unreported(status: &SessionStatus) -> bool {
    status.bytes_dirty == 0 && !undrained(status).is_empty()
}

/// Says what is about to be given up.
pub(super) fn note_owed(status: &SessionStatus, output: &Output) {
    if let Some(owed) = owed(status) {
        output.note(&owed);
    }
}

/// What its user has to agree to; `None` where he has, or where nothing that was asked for is given up.
pub(super) fn question(status: &SessionStatus, arguments: &Rm) -> Option<String> {
    let gives_up = owed(status).is_some() && !undrained(status).is_empty();
    let question = || format!("forebay: destroy buffer {} with it? [y/N] ", status.token);
    (gives_up && !arguments.discard).then(question)
}

/// The answer from the terminal, when there is one. It is read by a thread of its own, so that a signal ends the wait.
///
/// # Errors
/// Nobody can answer.
pub(super) fn asked(question: &str, output: &Output) -> Result<Receiver<String>, Failure> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::usage(
            "what is to be staged out is not given up without a question, and nobody can answer here",
            "stage it out, or give --discard",
        ));
    }
    output.bars().suspend(|| eprint!("{question}"));
    let (answered, answer) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        // The end of the input answers nothing.
        if io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {
            drop(answered.send(line));
        }
    });
    Ok(answer)
}

/// Goes on where the answer is yes.
pub(super) fn decide(answer: Option<String>, token: &Token) -> Result<(), Failure> {
    let yes = |line: String| matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if answer.is_some_and(yes) {
        return Ok(());
    }
    Err(Failure::Refused {
        exit: ExitCode::Cancelled,
        message: format!("buffer {token} is kept as it is"),
        advice: "`forebay status` says what it owes, and how that is staged out".into(),
    })
}

/// What is about to be given up, before anything of it is; `None` where nothing is known to be. Only stage-outs that
/// were asked for are known: not files that none of them had, nor what was written after them.
fn owed(status: &SessionStatus) -> Option<String> {
    let lost = undrained(status);
    let is_asked = status.stages.iter().any(|stage| stage.direction == Direction::Out);
    let has_data = status.instance.as_ref().is_some_and(|instance| instance.used_bytes > 0);
    if !is_asked && has_data {
        return Some(format!("forebay: nothing that is in buffer {} was staged out", status.token));
    }
    (status.bytes_dirty > 0 && !lost.is_empty()).then(|| {
        let bytes = render::bytes(status.bytes_dirty);
        format!("forebay: this gives up what is not staged out, at most {bytes}: {}", lost.join(" "))
    })
}

/// The folders of its parts that their nodes did not remove: control was set back meanwhile, as with a backup of its
/// database, and they pass for another buffer's.
fn left(context: &Context, status: &SessionStatus) -> Vec<PathBuf> {
    let Some(instance) = &status.instance else { return Vec::new() };
    let nodes = context.service.folder().join("nodes");
    let parts = instance.nodes.iter().map(|node| nodes.join(node).join("fragments").join(&instance.id));
    // What cannot be looked at may be there.
    parts.filter(|part| disk::exists(part).unwrap_or(true)).collect()
}

/// What is left of a buffer that control has forgotten.
fn given_up(token: &Token, left: &[PathBuf]) -> String {
    let left: Vec<String> = left.iter().map(|part| part.display().to_string()).collect();
    let left = left.join(" ");
    format!(
        "forebay: forgot buffer {token}, and kept {left}, as another buffer has had the same number; where nobody \
         needs what is there, remove it while nothing is mounted"
    )
}

/// What went with the buffer; `is_of_now`: its nodes were asked after everything that was done in it. Of a mount of a
/// persistent one by hand nothing does.
pub(super) fn destroyed(status: &SessionStatus, is_of_now: bool) -> String {
    if let Some(name) = status.uses.first().filter(|_| status.is_by_hand()) {
        return format!("forebay: persistent buffer {name} is unmounted; what is in it is kept");
    }
    // As the nodes said last, which may be before a stage that has just ended.
    let is_empty = |instance: &InstanceStatus| {
        is_of_now && instance.used_bytes == 0 && (instance.intact == Some(true) || instance.nodes.is_empty())
    };
    let used = match &status.instance {
        Some(instance) if !is_empty(instance) => format!(" with {}", render::at_least(instance.used_bytes)),
        _ => ", which was empty".to_owned(),
    };
    let lost = undrained(status);
    let mut line = format!("forebay: destroyed buffer {}{used}", status.token);
    if !lost.is_empty() {
        line += &format!(", not staged out: {}", lost.join(" "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_last_words_name_what_was_not_staged_out() {
        assert_eq!(
            destroyed(&fixtures::session(), true),
            "forebay: destroyed buffer 3 with at least 41 MiB, not staged out: $DW_JOB_STRIPED/results"
        );
    }

    #[test]
    fn what_is_owed_is_named_before_it_is_given_up() {
        let mut status = fixtures::session();
        assert_eq!(owed(&status), None, "its job never wrote");
        status.bytes_dirty = 6 << 20;
        let named = "forebay: this gives up what is not staged out, at most 6 MiB: $DW_JOB_STRIPED/results";
        assert_eq!(owed(&status).as_deref(), Some(named));
        status.stages.iter_mut().for_each(|stage| stage.state = StageState::Complete);
        assert_eq!(owed(&status), None);
        status.stages.clear();
        assert_eq!(owed(&status).as_deref(), Some("forebay: nothing that is in buffer 3 was staged out"));
        status.instance.iter_mut().for_each(|instance| instance.used_bytes = 0);
        assert_eq!(owed(&status), None, "it is empty as far as is known");
    }

    #[test]
    fn what_a_node_has_not_said_yet_is_not_told_to_be_nothing() {
        let mut status = fixtures::session();
        status.stages.clear();
        status.instance.iter_mut().for_each(|instance| instance.used_bytes = 0);
        let unknown = "forebay: destroyed buffer 3 with an unknown amount";
        status.instance.iter_mut().for_each(|instance| instance.intact = None);
        assert_eq!(destroyed(&status, true), unknown);
        status.instance.iter_mut().for_each(|instance| instance.intact = Some(true));
        assert_eq!(
            destroyed(&status, false),
            unknown,
            "it may have said so before a stage that has just ended"
        );
        assert_eq!(destroyed(&status, true), "forebay: destroyed buffer 3, which was empty");
    }
}
