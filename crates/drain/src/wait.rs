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

use crate::namesake::{machine, short_hash};
use crate::rendezvous::Rendezvous;
use crate::status::{Answer, SILENCE_MAX, Status, now_ms};

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
    let mut seen: Option<BTreeSet<String>> = None;
    loop {
        let (answers, statuses) = heard(rendezvous, id)?;
        watcher.sums(sums(&statuses));
        // A name that changes while the folder is listed, as one is taken back and another is made, may be missed once.
        let hosts: BTreeSet<String> = statuses.iter().map(|status| status.host.clone()).collect();
        let is_sure = seen.as_ref() == Some(&hosts);
        seen = Some(hosts);
        let is_late = give_up.is_some_and(|give_up| Instant::now() >= give_up);
        let (silent, others): (Vec<Status>, Vec<Status>) =
            statuses.into_iter().partition(|status| !answers.iter().any(|answer| answer.host == status.host));
        if is_sure && let Some(ending) = ending(answers, &silent, others.is_empty(), is_late) {
            return Ok(ending);
        }
        for status in &silent {
            if status.silence() > SILENCE_MAX && told.insert((status.host.clone(), false)) {
                watcher.silent(status);
            }
            if let Some(left) = late(status)
                && told.insert((status.host.clone(), true))
            {
                watcher.late(status, left);
            }
        }
        std::thread::sleep(if is_sure { PERIOD } else { PERIOD / 10 });
    }
}

/// How it ends, if these are all drainers.
fn ending(answers: Vec<Answer>, silent: &[Status], no_others: bool, is_late: bool) -> Option<Ending> {
    match silent {
        [] if no_others => Some(Ending::Nobody),
        [] => Some(Ending::Answered(answers)),
        // The rest of the nodes is waited for: what they have to say is worth more.
        silent if silent.iter().all(|status| status.ended) => Some(Ending::Stopped(silent.to_vec())),
        silent => is_late.then(|| Ending::Silent(silent.to_vec())),
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
            // On the node: what was drained of it may stay, if anything was.
            Some("removed") if line["attempts"] == 0 => false,
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

/// Whether the file is a commit's.
fn is_marker(file: &Path) -> std::io::Result<bool> {
    let text = std::fs::read(file)?;
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(value.is_some_and(|value| value["committed"].is_string()))
}

/// What a commit is about to replace is of an earlier one: the job may have drained a file of that name.
fn must_be_of_a_commit(path: &Path, found: std::io::Result<bool>) -> std::io::Result<()> {
    match found {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error)
            if !matches!(
                error.kind(),
                std::io::ErrorKind::InvalidInput | std::io::ErrorKind::IsADirectory
            ) =>
        {
            Err(error)
        }
        _ => Err(std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            format!("{} is there, and no commit has made it", path.display()),
        )),
    }
}

/// What a commit is about to replace is an earlier one's, and none that a drainer of the job has put there.
fn may_be_replaced(rendezvous: &Path, to: &Path, (file, latest): (&Path, &Path)) -> std::io::Result<()> {
    must_be_of_a_commit(file, is_marker(file))?;
    must_be_of_a_commit(latest, std::fs::read_link(latest).map(|_| true))?;
    must_not_be_drained(rendezvous, to, &[file, latest])
}

/// It may look like a commit's, and a drainer owes the file there.
fn must_not_be_drained(rendezvous: &Path, to: &Path, names: &[&Path]) -> std::io::Result<()> {
    let there: Vec<&&Path> = names.iter().filter(|path| std::fs::symlink_metadata(path).is_ok()).collect();
    if there.is_empty() {
        return Ok(());
    }
    let whole = to.canonicalize()?;
    let files = Rendezvous::new(rendezvous.to_owned()).files()?;
    let drained = |path: &Path| {
        let target = path.strip_prefix(to).map_or_else(|_| path.to_owned(), |name| whole.join(name));
        files.values().any(|line| {
            matches!(line["event"].as_str(), Some("done" | "kept"))
                && line["target"].as_str().is_some_and(|drained| Path::new(drained) == target)
        })
    };
    let Some(path) = there.into_iter().find(|path| drained(path)) else { return Ok(()) };
    let text = format!("{} is there, and the job has drained it", path.display());
    Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text))
}

/// Publishes that the group `name` is whole: the file `TO/NAME.committed`, and the link `TO/latest` if there is a
/// `TO/NAME`. Call it only after all answers were whole, of the drainers that meet in `rendezvous`. Returns what was
/// made.
///
/// # Errors
/// The PFS's. ALREADY_EXISTS where what it would replace is not of a commit.
pub fn commit(rendezvous: &Path, to: &Path, name: &str, answers: &[Answer]) -> std::io::Result<Vec<PathBuf>> {
    let marker = Marker {
        name,
        committed: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        hosts: answers.iter().map(|answer| answer.host.as_str()).collect(),
        files: answers.iter().map(|answer| answer.landed).sum(),
    };
    let mut text = serde_json::to_vec(&marker)?;
    text.push(b'\n');
    let (file, latest) = (to.join(format!("{name}.committed")), to.join("latest"));
    may_be_replaced(rendezvous, to, (&file, &latest))?;
    // Several may publish one name at once.
    let temporary =
        format!(".{}.{}.committing", name.replace('/', "_"), short_hash(&(machine(), std::process::id())));
    let temporary = OsString::from(temporary);
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
