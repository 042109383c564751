//! Those who ask the drainers of a job: is everything on the PFS?

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use disk::below::{Root, by_descriptor};
use rustix::fs::{AtFlags, renameat, symlinkat, unlinkat};
use serde::Serialize;

use crate::rendezvous::{Rendezvous, SILENCE_MAX};
use crate::status::{Answer, Status, now_ms};

/// How often the rendezvous is read.
const PERIOD: Duration = Duration::from_millis(300);

/// How all drainers of a job stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Files that are to be on the PFS.
    pub enqueued: usize,
    /// Those that are being copied or there.
    pub dequeued: usize,
    /// Those that are there, verified.
    pub done: usize,
    /// Those that could not be copied at the last try.
    pub failed: usize,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// All drainers answered.
    Answered(Vec<Answer>),
    /// No drainer has ever been at this rendezvous.
    Nobody,
    /// These have not answered in time; what they said last.
    Silent(Vec<Status>),
    /// All others have answered. These were stopped, and nobody answers for them.
    Stopped(Vec<Status>),
}

/// A marker: everything of this name is on the PFS, of all nodes.
#[derive(Debug, Serialize)]
struct Marker<'a> {
    name: &'a str,
    committed: String,
    hosts: Vec<&'a str>,
    files: usize,
}

/// What a waiting user is told meanwhile.
pub trait Watcher {
    /// The drainers stand like this.
    fn sums(&mut self, sums: Sums);

    /// A drainer has not been heard of for a minute.
    fn silent(&mut self, status: &Status);

    /// At the present rate a drainer is not ready when the job's time ends.
    fn late(&mut self, status: &Status, seconds_left: u64);
}

/// Waits until every drainer of the session has decided about all that is closed by now.
///
/// # Errors
/// The PFS's.
pub fn wait(
    rendezvous: &Path,
    timeout: Option<Duration>,
    watcher: &mut dyn Watcher,
) -> std::io::Result<Ending> {
    let rendezvous = Rendezvous::new(rendezvous.to_owned());
    match rendezvous.statuses() {
        Ok(statuses) if !statuses.is_empty() => {}
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(Ending::Nobody),
    }
    let id = rendezvous.request()?;
    let ending = wait_for(&rendezvous, &id, timeout, watcher);
    rendezvous.withdraw(&id);
    ending
}

/// What the drainers answered, with the last word of those that are done and gone, and how all stand.
fn heard(rendezvous: &Rendezvous, id: &str) -> std::io::Result<(Vec<Answer>, Vec<Status>)> {
    // Read first: who comes while we look is waited for.
    let mut answers = rendezvous.answers(id)?;
    let statuses = rendezvous.statuses()?;
    for answer in statuses.iter().filter_map(Status::last_answer) {
        if !answers.iter().any(|other| other.host == answer.host) {
            answers.push(answer);
        }
    }
    Ok((answers, statuses))
}

fn wait_for(
    rendezvous: &Rendezvous,
    id: &str,
    timeout: Option<Duration>,
    watcher: &mut dyn Watcher,
) -> std::io::Result<Ending> {
    let give_up = timeout.map(|timeout| Instant::now() + timeout);
    let mut told: BTreeSet<(String, bool)> = BTreeSet::new();
    loop {
        let (answers, statuses) = heard(rendezvous, id)?;
        watcher.sums(sums(&statuses));
        let silent: Vec<&Status> = statuses
            .iter()
            .filter(|status| !answers.iter().any(|answer| answer.host == status.host))
            .collect();
        if silent.is_empty() {
            return Ok(Ending::Answered(answers));
        }
        // The rest of the nodes is waited for: what they have to say is worth more.
        if silent.iter().all(|status| status.ended) {
            return Ok(Ending::Stopped(silent.into_iter().cloned().collect()));
        }
        if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            return Ok(Ending::Silent(silent.into_iter().cloned().collect()));
        }
        for status in silent {
            if status.silence() > SILENCE_MAX && told.insert((status.host.clone(), false)) {
                watcher.silent(status);
            }
            if let Some(left) = late(status)
                && told.insert((status.host.clone(), true))
            {
                watcher.late(status, left);
            }
        }
        std::thread::sleep(PERIOD);
    }
}

/// Whether a drainer of the session has brought a file of this name, or one below it, to the folder `to`. Its name on
/// the node counts as well: nodes may have folders of their own on the PFS.
///
/// # Errors
/// The PFS's.
pub fn has_drained(rendezvous: &Path, to: &Path, name: &Path) -> std::io::Result<bool> {
    let to = to.canonicalize().unwrap_or_else(|_| to.to_owned());
    let files = Rendezvous::new(rendezvous.to_owned()).files()?;
    Ok(files.iter().any(|((_, path), line)| {
        let target = Path::new(line["target"].as_str().unwrap_or_default());
        let is_there = match line["event"].as_str() {
            Some("failed" | "open") => false,
            // On the node: what was drained of it may stay.
            Some("removed") => disk::exists(target).unwrap_or(true),
            _ => true,
        };
        is_there && (Path::new(path).starts_with(name) || target.starts_with(to.join(name)))
    }))
}

/// How many seconds a drainer needs that it does not have.
pub fn late(status: &Status) -> Option<u64> {
    let (deadline, needs) = (status.deadline?, status.seconds_left()?);
    let has = deadline.saturating_sub(now_ms() / 1000);
    (needs > has).then_some(needs - has)
}

/// Adds up what the drainers say.
pub fn sums(statuses: &[Status]) -> Sums {
    statuses.iter().fold(Sums::default(), |sums, status| Sums {
        enqueued: sums.enqueued + status.enqueued,
        dequeued: sums.dequeued + status.dequeued,
        done: sums.done + status.done,
        failed: sums.failed + status.failed,
    })
}

/// Publishes that the group `name` is whole: the file `TO/NAME.committed`, and the link `TO/latest` if there is a
/// `TO/NAME`. Call it only after all answers were whole. Returns what was made.
///
/// # Errors
/// The PFS's.
pub fn commit(to: &Path, name: &str, answers: &[Answer]) -> std::io::Result<Vec<PathBuf>> {
    let marker = Marker {
        name,
        committed: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        hosts: answers.iter().map(|answer| answer.host.as_str()).collect(),
        files: answers.iter().map(|answer| answer.landed).sum(),
    };
    let mut text = serde_json::to_vec(&marker)?;
    text.push(b'\n');
    let file = to.join(format!("{name}.committed"));
    let temporary = OsString::from(format!(".{}.committing", name.replace('/', "_")));
    let root = Root::hold(to)?;
    let (place, above) = (root.reach(&file)?, root.inside(to)?);
    // Also where a commit was killed that had made the link below: nothing is written to what it leads to.
    let mut draft = above.create(&temporary)?;
    let made = draft.write_all(&text).and_then(|()| draft.sync_all());
    let renamed = || renameat(&above.folder, &temporary, &place.folder, &place.name).map_err(Into::into);
    if let Err(error) = made.and_then(|()| renamed()) {
        let _ = unlinkat(&above.folder, &temporary, AtFlags::empty());
        return Err(error);
    }
    let mut made = vec![file];
    if disk::exists(&to.join(name))? {
        let latest = to.join("latest");
        // What a commit left that was killed in between.
        let _ = unlinkat(&above.folder, &temporary, AtFlags::empty());
        symlinkat(name, &above.folder, &temporary)?;
        renameat(&above.folder, &temporary, &above.folder, "latest")?;
        made.push(latest);
    }
    // A group may be in a folder below.
    for folder in [&place.folder, &above.folder] {
        File::open(by_descriptor(folder))?.sync_all()?;
    }
    Ok(made)
}
