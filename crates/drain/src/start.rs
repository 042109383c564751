//! The start of a drainer.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context, bail};
use stage::single::Publisher;

use crate::alone::alone;
use crate::bound::{self, whole};
use crate::burst::Burst;
use crate::claims::Claims;
use crate::copy::Copier;
use crate::deadline::Deadline;
use crate::drain::{Drain, State, kept};
use crate::ledger::Ledger;
use crate::logs::Logs;
use crate::mounted::Pfs;
use crate::rendezvous::Rendezvous;
use crate::settings::{Bursts, REQUEST, STOPPED, SameName, Settings};
use crate::source::Source;
use crate::target::Target;
use crate::top::Top;
use crate::watch::Watch;
use disk::Room;

/// How often the logs are written.
const LOG_PERIOD: Duration = Duration::from_millis(200);

/// How often a folder that cannot be watched whole is walked through.
const WALK_PERIOD: Duration = Duration::from_secs(10);

/// Runs a drainer until it is told to stop. What it has not copied then is copied by its successor.
///
/// # Errors
/// It cannot start.
pub fn run(settings: &Settings, limit: Option<u64>) -> anyhow::Result<()> {
    let state = settings.state();
    std::fs::create_dir_all(&state).with_context(|| format!("make the folder {}", state.display()))?;
    // A start writes before it has read what there is to do.
    let room = Room::of(&state);
    room.make_way();
    let lock = state.join("lock");
    let _alone = alone(&lock)?;
    let held = inode(&lock).with_context(|| format!("look at {}", lock.display()))?;
    let pfs = Pfs::open(&state, &settings.to)?;
    make_target(&settings.to)?;
    go_on(&state).with_context(|| format!("note in {} that the drain goes on", state.display()))?;
    Rendezvous::new(settings.rendezvous()).make(&whole(&settings.to)?)?;
    let drain = Arc::new(open(settings, &state, pfs, limit)?);
    leave_request(settings, &state)?;
    drain.complete_log();
    drain.enter()?;
    let spawn = |name: &str, work: Box<dyn FnOnce(&Drain) + Send>| {
        let drain = Arc::clone(&drain);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&drain)).map(drop)
    };
    // Watched before anything is copied, so that nothing is missed in between.
    spawn("watch", Box::new(Drain::follow))?;
    for _ in 0..settings.workers {
        spawn("copy", Box::new(Drain::work))?;
    }
    spawn("land", Box::new(Drain::land))?;
    spawn("logs", Box::new(Drain::keep_logs))?;
    spawn("walk", Box::new(Drain::keep_walking))?;
    spawn("rendezvous", Box::new(Drain::attend))?;
    spawn("deadline", Box::new(Drain::watch_deadline))?;
    spawn("bursts", Box::new(|drain| drain.burst.watch(|| drain.wake())))?;
    let folder = state.clone();
    spawn("folder", Box::new(move |drain| drain.end_without_folder(&folder, held)))?;
    tracing::info!("drain {} to {}", drain.from.display(), drain.to.display());
    drain.answer(&state, &room)?;
    drain.logs.flush();
    drain.go();
    Ok(())
}

/// Leaves a request for the node service, which this folder may be a volume of. It has started those that are told
/// where their own folder is.
fn leave_request(settings: &Settings, state: &Path) -> anyhow::Result<()> {
    if settings.state.is_some() {
        return Ok(());
    }
    let file = state.join(REQUEST);
    let written = settings.request().and_then(|request| disk::replace(&file, &request));
    written.with_context(|| format!("write {}", file.display()))
}

/// Makes the folder on the PFS if only it is missing.
fn make_target(to: &Path) -> anyhow::Result<()> {
    if !disk::is_folder(to).with_context(|| format!("look for {}", to.display()))? {
        std::fs::create_dir(to).with_context(|| format!("make the folder {}", to.display()))?;
    }
    Ok(())
}

/// Forgets in the drainer's folder `state` that its user has stopped it.
///
/// # Errors
/// The disk's.
pub fn go_on(state: &Path) -> io::Result<()> {
    match std::fs::remove_file(state.join(STOPPED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The drained folder and the folder on the PFS, as whole paths.
fn ends(settings: &Settings) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (from, to) = (whole(&settings.from)?, whole(&settings.to)?);
    if from.starts_with(&to) || to.starts_with(&from) {
        bail!(
            "{} and {} lie in one another: what is drained would be drained again",
            from.display(),
            to.display()
        );
    }
    Ok((from, to))
}

fn open(settings: &Settings, state: &Path, pfs: Pfs, limit: Option<u64>) -> anyhow::Result<Drain> {
    let (from, to) = ends(settings)?;
    let top = Arc::new(Top::open(&from).with_context(|| format!("open {}", from.display()))?);
    let (host, folder, source) = (settings.host(), settings.rendezvous(), Arc::new(Source::of(&from)));
    let ledger = bound::open(state, &from, &to, &settings.session())?;
    let claims = claims(settings, &ledger)?;
    let shared = Arc::new(Mutex::new(State::new(ledger, &host)));
    let publisher = Publisher::open(
        &format!("drain-{}-{host}-{:08x}", settings.session(), short_hash(&from)),
        &state.join("remarks"),
        source.clone(),
        Arc::new(target(&to, claims.clone(), &shared)),
    )?;
    publisher.pace().limit(limit);
    let copier = Copier { publisher, pfs, source, top: Arc::clone(&top), to: to.clone() };
    let burst = match settings.bursts {
        Bursts::Wait => Burst::of(&from, &to),
        Bursts::Ignore => Burst::default(),
    };
    Ok(Drain {
        burst,
        hurries: AtomicBool::new(false),
        watch: Watch::open(Arc::clone(&top), &whole(state)?).context("watch the drained folder (inotify)")?,
        logs: Logs::open(&to, &folder, &host)
            .with_context(|| format!("open the logs in {}", to.display()))?,
        session: settings.session(),
        host,
        from,
        top,
        to,
        same_name: settings.same_name,
        removed: settings.removed,
        deadline: Deadline::new(settings.slurm_job.clone(), settings.deadline),
        rendezvous: Rendezvous::new(folder),
        settled_at_end: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        publishing: Mutex::new(()),
        copier,
        claims,
        state: shared,
        work: Condvar::new(),
        copied: Condvar::new(),
        settled: Condvar::new(),
    })
}

/// The names on the PFS that this node has; `None` where no other can have them.
fn claims(settings: &Settings, ledger: &Ledger) -> anyhow::Result<Option<Arc<Claims>>> {
    if settings.same_name == SameName::Folder {
        return Ok(None);
    }
    let rendezvous = settings.rendezvous();
    let claims = Claims::open(&rendezvous, &settings.host(), kept(ledger));
    Ok(Some(Arc::new(claims.with_context(|| format!("open the claims in {}", rendezvous.display()))?)))
}

/// The PFS side, which has it in the ledger what it puts where.
fn target(to: &Path, claims: Option<Arc<Claims>>, state: &Arc<Mutex<State>>) -> Target {
    let state = Arc::clone(state);
    Target::new(to, claims, move |name, inode| {
        let mut state = state.lock().expect("no thread panics with the lock");
        if let Err(error) = state.ledger.place(name, inode) {
            tracing::warn!("write the ledger: {error}; what is renamed on the node may stay on the PFS");
        }
    })
}

impl Drain {
    /// Wakes who waited for the end of a burst. With the lock: who has just found one is waiting by then.
    fn wake(&self) {
        drop(self.lock());
        self.work.notify_all();
    }

    /// Writes the logs, for ever.
    fn keep_logs(&self) {
        loop {
            std::thread::sleep(LOG_PERIOD);
            self.logs.flush();
        }
    }

    /// Ends where its own folder is removed: nobody can reach it any more, and its successor does not know of it.
    fn end_without_folder(&self, state: &Path, held: u64) {
        let is_gone = |found: io::Result<Option<u64>>| found.is_ok_and(|inode| inode != Some(held));
        while !(self.top.is_there().is_ok() && is_gone(disk::if_there(inode(&state.join("lock"))))) {
            std::thread::sleep(LOG_PERIOD);
        }
        tracing::error!("the drainer's folder {} was removed: it ends", state.display());
        self.leave();
        std::process::exit(1);
    }

    /// The first walk, and more where not everything can be watched.
    fn keep_walking(&self) {
        self.clear();
        self.scan(Path::new(""));
        loop {
            std::thread::sleep(WALK_PERIOD);
            if self.watch.is_blind() {
                self.scan(Path::new(""));
            }
        }
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    std::fs::symlink_metadata(path).map(|found| found.ino())
}

fn short_hash(path: &Path) -> u32 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}
