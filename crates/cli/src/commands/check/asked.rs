//! What control says of the lines that ask for a buffer. It is asked about each by itself, so that what is wrong with
//! one, or with another line of the script, hides nothing.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use api::CallError;
use api::control::session_path;
use model::Token;
use model::directive::{Directive, Located};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::{ErrorCode, JobProcess, JobSummary, Script, SessionStatus};

use super::Mistake;
use crate::commands::cluster::Control;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::script::{Component, Submission};
use crate::{env, identity};

/// How long this user's own control service may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Where to ask.
pub(super) enum Service {
    /// The cluster's.
    Cluster(Control),
    /// This user's own.
    Own(daemon::client::Client),
}

impl Service {
    /// The one that a submission would be for; `None` where there is none. One that does not run is not started for a
    /// check.
    pub(super) fn find(cluster: bool, output: &Output, dir: Option<PathBuf>) -> Option<Service> {
        if cluster {
            return Some(Service::Cluster(Control::of_cluster(output)));
        }
        let folder = disk::state::existing(dir.or_else(env::state_folder))?;
        let socket = folder.join("control.sock");
        UnixStream::connect(&socket).ok()?;
        Some(Service::Own(daemon::client::Client::new(socket).with_timeout(ANSWER)))
    }

    async fn post<B: Serialize, R: DeserializeOwned>(&self, path: &str, body: &B) -> Result<R, Failure> {
        match self {
            Service::Cluster(control) => control.post(path, body),
            Service::Own(client) => client.post(path, body).await.map_err(|error| match error {
                CallError::Refused(error) => Failure::Api(error),
                other => Failure::unavailable(other.reason(), "repeat the command"),
            }),
        }
    }

    /// The session with this name, if there is one that this user may see.
    fn named(&self, name: &Token) -> Result<Option<SessionStatus>, Failure> {
        let Service::Cluster(control) = self else { return Ok(None) };
        match control.get(&session_path(name.as_str(), "")) {
            Err(Failure::Api(error)) if error.code == ErrorCode::NoSuchSession => Ok(None),
            found => found.map(Some),
        }
    }
}

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub mistakes: Vec<Mistake>,
    pub notes: Vec<String>,
}

/// A line, or lines that are one buffer, of a script.
struct Piece<'a> {
    located: &'a Located,
    /// With nothing else: a script.
    script: Script,
}

/// Whether a line of it can be asked about.
pub(super) fn is_of_use(submission: &Submission) -> bool {
    submission.components.iter().any(|part| !pieces(submission, part).is_empty())
}

/// Asks about everything.
pub(super) async fn ask(service: &Service, submission: &Submission) -> Answers {
    let created: BTreeSet<&Token> = submission.components.iter().flat_map(created).collect();
    let mut answers = Answers::default();
    for piece in submission.components.iter().flat_map(|part| pieces(submission, part)) {
        let failure = match summary(service, piece.script.clone()).await {
            Ok(summary) => {
                let new = |note: &String| !answers.notes.contains(note);
                let notes: Vec<String> = summary.notes.into_iter().filter(new).collect();
                answers.notes.extend(notes);
                of_name(service, &piece, &created).await.err()
            }
            Err(failure) => Some(failure),
        };
        let Some(failure) = failure else { continue };
        // What does not answer now will not answer for another line.
        let is_answer = matches!(failure, Failure::Api(_) | Failure::Refused { exit: ExitCode::Script, .. });
        if is_answer {
            let text = format!("{}: {failure}", submission.place(piece.located.line));
            answers.mistakes.push(Mistake { exit: failure.exit_code(), text });
            continue;
        }
        match service {
            Service::Cluster(_) => answers.mistakes.push(failure.into()),
            // A run starts it again.
            Service::Own(_) => answers.notes.push(failure.to_string()),
        }
        break;
    }
    answers
}

async fn summary(service: &Service, script: Script) -> Result<JobSummary, Failure> {
    let owner = identity::owner();
    let submitter = matches!(service, Service::Cluster(_)).then_some(owner.uid);
    service.post("/v1/job_process", &JobProcess { script, owner, submitter }).await
}

/// Of a persistent buffer that is named: what a job with the line would wait for, or be held for. A submission is not
/// refused for it, as another job may change it meanwhile.
async fn of_name(service: &Service, piece: &Piece<'_>, created: &BTreeSet<&Token>) -> Result<(), Failure> {
    match (service, &piece.located.directive) {
        (Service::Own(_), _) => Ok(()),
        (_, Directive::PersistentDw { name }) => {
            if created.contains(name) || service.named(name)?.is_some() {
                return Ok(());
            }
            Err(Failure::script(
                format!("there is no persistent buffer {name}, and the job waits until there is"),
                "correct the name, or submit the job that creates it first",
            ))
        }
        (_, Directive::CreatePersistent(create)) => match other_owner(service, piece, &create.name).await? {
            Some(owner) => Err(Failure::script(
                format!("the name {} is that of a buffer of {owner} already", create.name),
                "choose another name",
            )),
            None => Ok(()),
        },
        (_, Directive::DestroyPersistent { name, .. }) => match other_owner(service, piece, name).await? {
            Some(owner) => Err(Failure::script(
                format!("the persistent buffer {name} belongs to {owner}, and only its owner destroys it"),
                "correct the name, or ask its owner",
            )),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Which other user has a buffer of this name.
async fn other_owner(service: &Service, piece: &Piece<'_>, name: &Token) -> Result<Option<String>, Failure> {
    let own = identity::owner().uid;
    if let Some(known) = service.named(name)? {
        return Ok((known.owner.uid != own).then(|| identity::name_of(known.owner.uid)));
    }
    // One that is another user's alone is not shown, and a job that uses it is refused.
    let text = format!("#!/bin/sh\n#DW persistentdw name={name}\n");
    match summary(service, Script { text, ..piece.script.clone() }).await {
        Err(Failure::Api(error)) if error.code == ErrorCode::NotYours => Ok(Some("another user".into())),
        asked => asked.map(|_| None),
    }
}

fn created(part: &Component) -> impl Iterator<Item = &Token> {
    part.directives.directives.iter().filter_map(|located| match &located.directive {
        Directive::CreatePersistent(create) => Some(&create.name),
        _ => None,
    })
}

/// The lines of a component that ask for a buffer and are right by themselves. Those of `jobdw` are one buffer.
fn pieces<'a>(submission: &Submission, part: &'a Component) -> Vec<Piece<'a>> {
    let is_job = |located: &&Located| matches!(located.directive, Directive::JobDw(_));
    let asks = |located: &&Located| {
        !matches!(located.directive, Directive::StageIn(_) | Directive::StageOut(_) | Directive::Swap { .. })
    };
    let right = || part.directives.directives.iter().filter(|located| !is_wrong(part, located));
    let job: Vec<&Located> = right().filter(is_job).collect();
    let others = right().filter(asks).filter(|located| !is_job(located)).map(|located| vec![located]);
    let piece = |lines: Vec<&'a Located>| {
        let text = lines.iter().map(|located| written(&part.text, located.line)).collect::<String>();
        let script = Script { text: format!("#!/bin/sh\n{text}"), ..submission.script.clone() };
        Some(Piece { located: lines.first()?, script })
    };
    std::iter::once(job).chain(others).filter_map(piece).collect()
}

fn is_wrong(part: &Component, located: &Located) -> bool {
    let is_in = |line| located.line == line || located.options.iter().any(|option| option.line == line);
    part.wrong.iter().any(|error| is_in(error.line))
}

/// A directive as it is written, with the lines that it goes on in.
fn written(text: &str, line: u32) -> String {
    let mut lines = text.lines().skip(line as usize - 1);
    let mut whole = String::new();
    for line in &mut lines {
        whole.push_str(line);
        whole.push('\n');
        let end = line.trim_end();
        if !end.ends_with('\\') || end.ends_with("\\\\") {
            break;
        }
    }
    whole
}
