//! What looks after one volume: runs the drainer that its user asks for, and discards it after the job.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use daemon::logging::last_words;
use disk::below::Root;
use drain::Order;
use drain::settings::{OWN_FOLDER, REQUEST, STOPPED};
use drain::status::Status;
use rustix::fs::{Mode, OFlags};
use tokio::sync::watch;
use wire::node::{LocalSpec, LocalStatus};

use super::volume::Volume;
use super::{Life, Setting, cgroup};
use crate::keep;

/// How often to look at a volume.
const PERIOD: Duration = Duration::from_millis(300);

/// Pause between two tries to start a drainer that does not start, or to drain what could not be drained.
const RETRY: Duration = Duration::from_secs(5);

/// How long a drainer may take to answer after its start, or to be gone, and how often to look.
const START_LIMIT: Duration = Duration::from_secs(10);
const START_PERIOD: Duration = Duration::from_millis(20);

/// The longest request that is read; it is a command line.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// Options of the drainer that its user does not choose here.
const OURS: [&str; 2] = ["--state", "--owner"];

pub(super) struct Keeper {
    pub(super) setting: Arc<Setting>,
    pub(super) spec: LocalSpec,
    pub(super) volume: Volume,
    pub(super) shown: watch::Sender<LocalStatus>,
    pub(super) lives: watch::Receiver<Life>,
}

impl Keeper {
    /// Returns when the volume is discarded.
    pub(super) async fn run(mut self) {
        while *self.lives.borrow_and_update() == Life::Held {
            let why = self.blocking(Errand::look_after).await.err();
            let pause = if why.is_some() { RETRY } else { PERIOD };
            self.tell(why);
            let _ = tokio::time::timeout(pause, self.lives.changed()).await;
        }
        self.shown.send_modify(|status| status.released = true);
        while let Err(why) = self.end().await {
            self.tell(Some(why));
            let _ = tokio::time::timeout(RETRY, self.lives.changed()).await;
        }
        tracing::info!(id = self.spec.id, "a volume is discarded");
    }

    /// Drains and discards the volume; from the moment on in which what is in it is given up, only the latter.
    async fn end(&mut self) -> Result<(), String> {
        if *self.lives.borrow_and_update() != Life::GivenUp {
            let mut finish = std::pin::pin!(self.blocking(Errand::finish));
            let given_up = async { self.lives.wait_for(|life| *life == Life::GivenUp).await.map(drop) };
            tokio::select! {
                finished = &mut finish => return finished,
                Ok(()) = given_up => {}
            }
            // Without its drainer it does not wait any more.
            if self.blocking(Errand::stop_drainer).await.is_ok() {
                let _ = finish.await;
            }
        }
        self.blocking(Errand::give_up).await
    }

    /// Runs `work` on a thread that may block.
    fn blocking<R: Send + 'static>(&self, work: fn(&Errand) -> R) -> impl Future<Output = R> + use<R> {
        let errand = Errand {
            setting: Arc::clone(&self.setting),
            spec: self.spec.clone(),
            volume: self.volume.clone(),
        };
        // Begun at once, so that it goes on whoever waits for it.
        let done = tokio::task::spawn_blocking(move || work(&errand));
        async { done.await.expect("work on a volume does not panic") }
    }

    /// Shows what is wrong, and logs it once.
    fn tell(&self, why: Option<String>) {
        self.shown.send_if_modified(|status| {
            let is_new = status.kept != why;
            if let Some(why) = why.as_ref().filter(|_| is_new) {
                tracing::warn!(id = self.spec.id, "a private volume: {why}");
            }
            status.kept = why;
            is_new
        });
    }
}

/// What a thread needs that works on the volume.
struct Errand {
    setting: Arc<Setting>,
    spec: LocalSpec,
    volume: Volume,
}

impl Errand {
    /// Mounts it where a reboot has unmounted it, and runs its drainer, unless its user has stopped it.
    fn look_after(&self) -> Result<(), String> {
        self.volume.mount(false).map_err(|error| error.message)?;
        let after_the_job = self.spec.drain.as_ref().is_some_and(|drain| drain.when.is_none());
        // Whoever asks within the job has it begin now.
        let start = || {
            (!after_the_job || self.request()?.is_some()).then(|| self.start_drainer(Life::Held)).transpose()
        };
        start().map(drop).map_err(|error| format!("start its drainer: {error:#}"))
    }

    /// Drains what is owed and discards the volume; says why it does not.
    fn finish(&self) -> Result<(), String> {
        // An error may have cut an earlier try short.
        if self.volume.is_going().map_err(|error| error.message)? {
            return self.volume.discard().map_err(|error| error.message);
        }
        self.volume.hide().map_err(|error| error.message)?;
        // What is not mounted cannot say what it owes.
        self.volume.mount(true).map_err(|error| error.message)?;
        if self.start_drainer(Life::Released).map_err(|error| format!("{error:#}"))? {
            let answer = drain::settle(&self.state()).map_err(|error| format!("{error:#}"))?;
            let answer = answer.ok_or("its drainer has ended; it is started again")?;
            let failed = answer.failed.first().map(|first| format!("{}; {}", first.message, first.advice));
            let open = answer.open.first().map(|_| "a file is still open for writing".to_owned());
            if let Some(first) = failed.or(open) {
                let count = answer.failed.len() + answer.open.len();
                return Err(format!("{count} files are not drained: {first}"));
            }
            // A process that the job has left may have gone on.
            let last = drain::order(&self.state(), Order::Stop).map_err(|error| format!("{error:#}"))?;
            if last.is_some_and(|last| !last.owes_nothing()) {
                return Err("files came after all was drained: they are drained next".to_owned());
            }
        }
        self.volume.discard().map_err(|error| error.message)
    }

    /// The drainer's own folder.
    fn state(&self) -> PathBuf {
        self.volume.mountpoint.join(OWN_FOLDER)
    }

    /// Discards the volume as it is.
    fn give_up(&self) -> Result<(), String> {
        // What its user has put in the drainer's place must not keep the volume for ever.
        if let Err(why) = self.stop_drainer() {
            tracing::warn!(id = self.spec.id, "a volume that is given up: {why}");
        }
        self.volume.discard().map_err(|error| error.message)
    }

    fn stop_drainer(&self) -> Result<(), String> {
        let stopped = drain::order(&self.state(), Order::Stop);
        let stopped = stopped.map_err(|error| format!("stop its drainer: {error:#}"))?;
        // Until it is gone the volume is in use.
        let process = stopped.map(|drainer| PathBuf::from(format!("/proc/{}", drainer.pid)));
        let is_there = || process.as_ref().is_some_and(|process| disk::exists(process).unwrap_or(true));
        let looks = START_LIMIT.as_millis() / START_PERIOD.as_millis();
        (0..looks).take_while(|_| is_there()).for_each(|_| std::thread::sleep(START_PERIOD));
        Ok(())
    }

    /// Starts the drainer if one was asked for and does not run; within the job its user may have stopped it. Says
    /// whether one was asked for.
    fn start_drainer(&self, life: Life) -> anyhow::Result<bool> {
        let Some((from, words)) = self.drain()? else { return Ok(false) };
        if let Some(status) = self.running(life)? {
            if status.hurries
                && let Err(error) = cgroup::leave(status.pid, &self.setting.program)
            {
                tracing::warn!("the drainer {} is late and keeps its low rank: {error}", status.pid);
            }
            return Ok(true);
        }
        // Looked for after the drainer was: it says so before it ends.
        if life == Life::Held && self.open_own(STOPPED)?.is_some() {
            return Ok(true);
        }
        let owner = &self.spec.owner;
        let mut command = Command::new(&self.setting.program);
        command.args(words).arg("--owner").arg(format!("{}:{}", owner.uid, owner.gid));
        command.arg("--from").arg(from).arg("--state").arg(self.state());
        let log = self.volume.folder.join("drain.log");
        let pid = daemon::spawn::detached(&mut command, &log)?;
        if let Some(weight) = self.setting.drain_weight
            && let Err(error) = cgroup::join(pid, weight)
        {
            tracing::info!("the drainer {pid} has no cgroup of its own: {error}");
        }
        // It reads its ledger, then it answers.
        let lives = || disk::exists(Path::new(&format!("/proc/{pid}"))).unwrap_or(true);
        let mut looks = START_LIMIT.as_millis() / START_PERIOD.as_millis();
        while drain::order(&self.state(), Order::Status)?.is_none() {
            if looks == 0 || !lives() {
                let said = last_words(&log);
                bail!("{} (see {})", said.as_deref().unwrap_or("it says nothing"), log.display());
            }
            looks -= 1;
            std::thread::sleep(START_PERIOD);
        }
        Ok(true)
    }

    /// The drainer that runs. After the job none does at the user's path, where nothing is any more: one that somebody
    /// has started there ends.
    fn running(&self, life: Life) -> anyhow::Result<Option<Status>> {
        let runs = drain::order(&self.state(), Order::Status)?;
        let is_ours = |it: &Status| it.from.starts_with(&self.volume.mountpoint);
        if life == Life::Held || runs.as_ref().is_none_or(is_ours) {
            return Ok(runs);
        }
        self.stop_drainer().map_err(anyhow::Error::msg)?;
        Ok(None)
    }

    /// What is drained, if anything is, and the other words of the drainer's command line. What the job asked for with
    /// its volume goes before what its user asks for in it.
    fn drain(&self) -> anyhow::Result<Option<(PathBuf, Vec<String>)>> {
        if let Some(drain) = &self.spec.drain {
            let to = drain.to.to_string_lossy();
            let words =
                ["--to", &*to, "--session", drain.session.as_str(), "--host", self.setting.node.as_str()];
            let mut words = words.map(str::to_owned).to_vec();
            let job = drain.slurm_job.iter().flat_map(|job| ["--slurm-job".to_owned(), job.to_string()]);
            words.extend(job);
            return Ok(Some((self.volume.mountpoint.join(&drain.from), words)));
        }
        let Some(mut words) = self.request()? else { return Ok(None) };
        let from = self.drained(&take(&mut words, "--from"));
        OURS.iter().for_each(|option| drop(take(&mut words, option)));
        Ok(Some((from, words)))
    }

    /// The words of the user's request. Once it was seen the node has it beside its specification: it outlives what a
    /// job's clean-up does to the volume.
    fn request(&self) -> anyhow::Result<Option<Vec<String>>> {
        let file = self.volume.folder.join(REQUEST);
        let kept: Option<Vec<String>> = keep::read(&file)?;
        match self.asked() {
            Ok(Some(words)) => {
                if kept.as_ref() != Some(&words) {
                    keep::write(&file, &words)?;
                }
                Ok(Some(words))
            }
            Ok(None) => Ok(kept),
            Err(error) => kept.map(Some).ok_or(error),
        }
    }

    /// The words of the request that is in the volume now.
    fn asked(&self) -> anyhow::Result<Option<Vec<String>>> {
        let Some(file) = self.open_own(REQUEST)? else { return Ok(None) };
        let mut text = Vec::new();
        file.take(REQUEST_BYTES_MAX).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Opens a file in the drainer's folder, if it is there. The user may have put anything there, so no link is
    /// followed.
    fn open_own(&self, name: &str) -> std::io::Result<Option<File>> {
        let root = Root::hold(&self.volume.mountpoint)?;
        let path = PathBuf::from(OWN_FOLDER).join(name);
        match root.open_file(&path, OFlags::RDONLY, Mode::empty()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }

    /// Where the node has the folder that its user calls `from`.
    fn drained(&self, from: &str) -> PathBuf {
        let below = Path::new(from).strip_prefix(&self.volume.shown.path).unwrap_or(Path::new(""));
        let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        self.volume.mountpoint.join(if inside { below } else { Path::new("") })
    }
}

/// Takes an option and its value away; gives the value, which is empty where there is none.
fn take(words: &mut Vec<String>, option: &str) -> String {
    match words.iter().position(|word| word == option) {
        Some(place) => words.drain(place..words.len().min(place + 2)).nth(1).unwrap_or_default(),
        None => String::new(),
    }
}
