//! Those who ask the drainers of a job: is everything on the PFS?

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::rendezvous::{Rendezvous, path_in};
use crate::status::{Answer, SILENCE_MAX, Status, now_ms};

/// How often the rendezvous is read.
const PERIOD: Duration = Duration::from_millis(300);

/// How often to check whether an answer could be written.
const ROOM_PERIOD: Duration = Duration::from_secs(1);

/// So often in succession there is no room for one when the PFS counts as full: a copy takes all there is, until it is
/// given up for want of more.
const FULL_AFTER: u32 = 3;

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

/// What a waiting user is told meanwhile.
pub trait Watcher {
    /// The drainers stand like this.
    fn sums(&mut self, sums: Sums);

    /// A drainer has not been heard of for a minute.
    fn silent(&mut self, status: &Status);

    /// A drainer copies nothing, as somebody has told it so.
    fn paused(&mut self, status: &Status);

    /// At the present rate a drainer is not ready when the job's time ends.
    fn late(&mut self, status: &Status, seconds_left: u64);
}

/// What was told of a drainer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Silence,
    Pause,
    Lateness,
}

/// Waits until every drainer of the session has decided about all that is closed by now.
///
/// # Errors
/// The PFS's; also where that is too full for an answer: nobody would ever hear one ([`disk::is_full`]).
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
    // Read first: whoever comes while we look is waited for.
    let mut answers = rendezvous.answers(id)?;
    let statuses = rendezvous.statuses()?;
    for answer in statuses.iter().filter_map(Status::last_answer) {
        if !answers.iter().any(|other| other.host == answer.host) {
            answers.push(answer);
        }
    }
    Ok((answers, statuses))
}

/// Whether there is room for the answers that are waited for.
struct RoomForAnswers {
    looked: Instant,
    full: u32,
}

impl RoomForAnswers {
    /// Looks, every now and then.
    fn look(&mut self, rendezvous: &Rendezvous, id: &str) -> std::io::Result<()> {
        if self.looked.elapsed() < ROOM_PERIOD {
            return Ok(());
        }
        self.looked = Instant::now();
        match rendezvous.try_room(id) {
            Err(error) if disk::is_full(&error) => {
                self.full += 1;
                if self.full >= FULL_AFTER { Err(error) } else { Ok(()) }
            }
            // Whatever else that is, the answers tell.
            _ => {
                self.full = 0;
                Ok(())
            }
        }
    }
}

fn wait_for(
    rendezvous: &Rendezvous,
    id: &str,
    timeout: Option<Duration>,
    watcher: &mut dyn Watcher,
) -> std::io::Result<Ending> {
    // What is longer than the clock goes is without end.
    let give_up = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut told: BTreeSet<(String, About)> = BTreeSet::new();
    let mut seen: Option<BTreeSet<String>> = None;
    let mut room = RoomForAnswers { looked: Instant::now(), full: 0 };
    loop {
        let (answers, statuses) = heard(rendezvous, id)?;
        watcher.sums(sums(&statuses));
        // A name that changes while the folder is listed, as one is taken back and another is made, may be missed once.
        let hosts: BTreeSet<String> = statuses.iter().map(|status| status.host.clone()).collect();
        let is_sure = seen.replace(hosts.clone()).as_ref() == Some(&hosts);
        let is_late = give_up.is_some_and(|give_up| Instant::now() >= give_up);
        let (silent, others): (Vec<Status>, Vec<Status>) =
            statuses.into_iter().partition(|status| !answers.iter().any(|answer| answer.host == status.host));
        if is_sure && let Some(ending) = ending(answers, &silent, others.is_empty(), is_late) {
            return Ok(ending);
        }
        for status in &silent {
            if status.silence() > SILENCE_MAX && told.insert((status.host.clone(), About::Silence)) {
                watcher.silent(status);
            }
            if status.paused && !status.ended && told.insert((status.host.clone(), About::Pause)) {
                watcher.paused(status);
            }
            if let Some(left) = late(status)
                && told.insert((status.host.clone(), About::Lateness))
            {
                watcher.late(status, left);
            }
        }
        room.look(rendezvous, id)?;
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
        let target = path_in(line, "target");
        let is_there = match line["event"].as_str() {
            Some("failed" | "open") => false,
            // On the node: what was drained of it may stay, if anything was.
            Some("removed") if line["attempts"] == 0 => false,
            Some("removed") => disk::exists(&target).unwrap_or(true),
            _ => true,
        };
        is_there && (path.starts_with(name) || target.starts_with(to.join(name)))
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
