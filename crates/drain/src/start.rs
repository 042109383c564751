//! The start of a drainer.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use daemon::error::chain;
use stage::single::Publisher;

use crate::alone::{alone, drain_alone};
use crate::bound::{self, whole};
use crate::burst::Burst;
use crate::claims::Claims;
use crate::copy::Copier;
use crate::deadline::Deadline;
use crate::drain::{Drain, kept};
use crate::flash::Flash;
use crate::folder;
use crate::ledger::Ledger;
use crate::logs::Logs;
use crate::lost::Lost;
use crate::mounted::Pfs;
use crate::namesake::{Own, machine, short_hash};
use crate::overlap::overlap;
use crate::rendezvous::Rendezvous;
use crate::settings::{Bursts, REQUEST, STOPPED, SameName, Settings};
use crate::source::Source;
use crate::state::State;
use crate::target::Target;
use crate::top::Top;
use crate::unstarted::{self, Word, identity_hash};
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
    let mut word = None;
    drain(settings, limit, &mut word).inspect_err(|error| {
        if !unstarted::runs_already(error) {
            unstarted::refuse_after(word, settings, &settings.state(), &format!("{error:#}"));
        }
    })
}

/// `word` is what this drainer has said before it runs, until it does.
fn drain(settings: &Settings, limit: Option<u64>, word: &mut Option<Word>) -> anyhow::Result<()> {
    let state = settings.state();
    folder::make(&settings.from, &state)?;
    // A start writes before it has read what there is to do.
    let room = Room::of(&state);
    room.make_way();
    let lock = state.join("lock");
    let _alone = alone(&lock)?;
    let held = inode(&lock).with_context(|| format!("look at {}", lock.display()))?;
    let pfs = Pfs::open(&state, &settings.to)?;
    Pfs::make_folder(&settings.to)?;
    let top = opened(&ends(settings)?.0)?;
    go_on(&state).with_context(|| format!("note in {} that the drain goes on", state.display()))?;
    *word = Some(meet(settings)?);
    let drain = Arc::new(open(settings, &state, pfs, top)?);
    drain.pace().limit(limit);
    leave_request(settings, &state)?;
    drain.enter()?;
    *word = None;
    let worked = work(&drain, settings, (&state, held), &room);
    drain.go();
    worked
}

/// Has threads do all there is to do, until the drainer, with its own folder `state` and the lock `held` in it, is told
/// to end.
fn work(
    drain: &Arc<Drain>,
    settings: &Settings,
    (state, held): (&Path, u64),
    room: &Room,
) -> anyhow::Result<()> {
    let spawn = |name: &str, work: Box<dyn FnOnce(&Drain) + Send>| {
        let drain = Arc::clone(drain);
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
    let folder = state.to_owned();
    spawn("folder", Box::new(move |drain| drain.end_without_folder(&folder, held)))?;
    tracing::info!("drain {} to {}", drain.from.display(), drain.to.display());
    drain.answer(state, room)
}

/// Makes the rendezvous, and is counted there from now on.
fn meet(settings: &Settings) -> anyhow::Result<Word> {
    Rendezvous::new(settings.rendezvous()).make(&whole(&settings.to)?)?;
    unstarted::begin(settings).context("note on the PFS that the drain begins")
}

/// Leaves a request for the node service, which this folder may be a volume of. It has started those that are told
/// where their own folder is.
fn leave_request(settings: &Settings, state: &Path) -> anyhow::Result<()> {
    if settings.state.is_some() {
        return Ok(());
    }
    let file = state.join(REQUEST);
    let write = |request: Vec<u8>| match disk::read(&file) {
        // Also where there is no room to write it again.
        Ok(Some(known)) if known == request => Ok(()),
        _ => disk::replace(&file, &request),
    };
    let written = settings.request().and_then(write);
    written.with_context(|| format!("write {}", file.display()))
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
    if let Some(why) = overlap(&from, &to) {
        bail!("{why}");
    }
    Ok((from, to))
}

/// What `top` is on, as far as it has not failed. `folder` is the session's.
fn flash(top: &Top, state: &Path, folder: &Path, host: &str) -> anyhow::Result<Arc<Flash>> {
    let flash = Flash::open(top, folder.parent().unwrap_or(folder), host)?;
    let ledger = state.join("ledger");
    if !disk::exists(&ledger).with_context(|| format!("look for {}", ledger.display()))? {
        let own = state.file_name().unwrap_or_default();
        flash.forget(own).with_context(|| format!("list {}", top.path().display()))?;
    }
    Ok(Arc::new(flash))
}

/// The folder that is drained, by this process alone.
fn opened(from: &Path) -> anyhow::Result<Arc<Top>> {
    let top = Top::open(from).with_context(|| format!("open {}", from.display()))?;
    drain_alone(&top)?;
    Ok(Arc::new(top))
}

fn open(settings: &Settings, state: &Path, pfs: Pfs, top: Arc<Top>) -> anyhow::Result<Drain> {
    let (host, folder, (from, to)) = (settings.host(), settings.rendezvous(), ends(settings)?);
    let flash = flash(&top, state, &folder, &host)?;
    let ledger = bound::open(state, &from, &to, &settings.session())?;
    let (claims, shared) = claims(settings, ledger, &top)?;
    let id = format!("drain-{}-{host}-{:08x}", settings.session(), short_hash(&from));
    let source = Source::of(&from, Arc::new(Lost { state: shared.clone(), flash: flash.clone() }));
    let target = Target::new(&to, Some(Arc::clone(&claims)), shared.clone());
    let taken = target.taken();
    let publisher = publisher(&id, state, source, target)?;
    let copier = Copier { publisher, pfs, top: Arc::clone(&top), flash, taken, to: to.clone() };
    Ok(Drain {
        burst: burst(settings, &from, &to),
        hurries: AtomicBool::new(false),
        leaves: AtomicBool::new(false),
        watch: Watch::open(Arc::clone(&top), &whole(state)?, &to).context("watch it (inotify)")?,
        logs: Logs::open(&to, &folder, &host)
            .with_context(|| format!("open the logs in {}", to.display()))?,
        session: settings.session(),
        machine: machine(),
        host,
        from,
        top,
        to,
        same_name: settings.same_name,
        removed: settings.removed(),
        deadline: Deadline::new(settings.slurm_job.clone(), settings.deadline),
        rendezvous: Rendezvous::new(folder),
        settled_at_end: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        publishing: Mutex::new(()),
        settling: Mutex::new(()),
        copier,
        claims,
        state: shared,
        work: Condvar::new(),
        copied: Condvar::new(),
        settled: Condvar::new(),
    })
}

fn burst(settings: &Settings, from: &Path, to: &Path) -> Burst {
    match settings.bursts {
        Bursts::Wait => Burst::of(from, to),
        Bursts::Ignore => Burst::default(),
    }
}

fn publisher(id: &str, state: &Path, source: Source, target: Target) -> anyhow::Result<Publisher> {
    let opened = Publisher::open(id, &state.join("remarks"), Arc::new(source), Arc::new(target));
    opened.map_err(|error| anyhow!("{}; {}", chain(&error), error.advice("start the drain again")))
}

/// The names on the PFS that this node has. What they say of what was about to be published, the ledger learns.
fn claims(
    settings: &Settings,
    mut ledger: Ledger,
    top: &Top,
) -> anyhow::Result<(Arc<Claims>, Arc<Mutex<State>>)> {
    let (host, own) = (settings.host(), Own::new(top.path().to_owned(), top.identity()));
    let names = (settings.same_name != SameName::Folder).then(|| kept(&ledger));
    let opened = Claims::open(&settings.rendezvous(), &host, identity_hash(&own), names);
    let (claims, intents) = opened.context("open the claims")?;
    ledger.learn(intents);
    let mut state = State::new(ledger, &host);
    // Until somebody waits, the status says it.
    state.unseen = claims.damaged();
    Ok((Arc::new(claims), Arc::new(Mutex::new(state))))
}

impl Drain {
    /// Wakes threads that wait for the end of a burst. With the lock: one that has just found a burst is waiting by
    /// then.
    fn wake(&self) {
        drop(self.lock());
        self.work.notify_all();
    }

    /// Writes the logs, for ever.
    fn keep_logs(&self) {
        loop {
            std::thread::sleep(LOG_PERIOD);
            // Who settles asks whether that works.
            let _ = self.logs.flush();
            self.copier.flash.retry();
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
        // Who waits asks again.
        let _ = self.clear();
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
