//! What looks after one volume: runs the drainer that its user asks for, and discards it after the job.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use drain::Order;
use drain::settings::{OWN_FOLDER, REQUEST};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use tokio::sync::watch;
use wire::node::{LocalSpec, LocalStatus};

use super::Setting;
use super::volume::Volume;

/// How often a volume is looked at.
const PERIOD: Duration = Duration::from_millis(300);

/// Pause between two tries to drain what could not be drained.
const RETRY: Duration = Duration::from_secs(5);

/// The longest request that is read; it is a command line.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// Options of the drainer that its user does not choose here.
const OURS: [&str; 2] = ["--state", "--owner"];

pub(super) struct Keeper {
    pub(super) setting: Arc<Setting>,
    pub(super) spec: LocalSpec,
    pub(super) volume: Volume,
    pub(super) shown: watch::Sender<LocalStatus>,
    pub(super) released: watch::Receiver<bool>,
}

impl Keeper {
    /// Returns when the volume is discarded.
    pub(super) async fn run(mut self) {
        while !*self.released.borrow_and_update() {
            let why = self.blocking(Keeper::look_after).await.err();
            self.tell(why);
            let _ = tokio::time::timeout(PERIOD, self.released.changed()).await;
        }
        self.shown.send_modify(|status| status.released = true);
        while let Err(why) = self.blocking(Keeper::finish).await {
            self.tell(Some(why));
            tokio::time::sleep(RETRY).await;
        }
        tracing::info!(id = self.spec.id, "a volume is discarded");
    }

    /// Runs `work` on a thread that may block.
    async fn blocking<R: Send + 'static>(&self, work: fn(&Errand) -> R) -> R {
        let errand = Errand {
            setting: Arc::clone(&self.setting),
            spec: self.spec.clone(),
            volume: self.volume.clone(),
        };
        let done = tokio::task::spawn_blocking(move || work(&errand)).await;
        done.expect("work on a volume does not panic")
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

    /// Mounts it where a reboot has unmounted it, and runs its drainer.
    fn look_after(errand: &Errand) -> Result<(), String> {
        errand.volume.mount(false).map_err(|error| error.message)?;
        errand.start_drainer().map(drop).map_err(|error| format!("start its drainer: {error:#}"))
    }

    /// Drains what is owed and discards the volume; says why it does not.
    fn finish(errand: &Errand) -> Result<(), String> {
        errand.volume.hide().map_err(|error| error.message)?;
        // What is not mounted cannot say what it owes.
        errand.volume.mount(true).map_err(|error| error.message)?;
        if errand.start_drainer().map_err(|error| format!("{error:#}"))? {
            let answer = drain::settle(&errand.state()).map_err(|error| format!("{error:#}"))?;
            let answer = answer.ok_or("its drainer does not run; read drain.log in its folder")?;
            if !answer.is_whole() {
                let first = answer.failed.first().map_or("a file is still open for writing", |f| &f.message);
                let count = answer.failed.len() + answer.open.len();
                return Err(format!("{count} files are not drained: {first}"));
            }
            drain::order(&errand.state(), Order::Stop).map_err(|error| format!("{error:#}"))?;
        }
        errand.volume.discard().map_err(|error| error.message)
    }
}

/// What a thread needs that works on the volume.
struct Errand {
    setting: Arc<Setting>,
    spec: LocalSpec,
    volume: Volume,
}

impl Errand {
    /// The drainer's own folder.
    fn state(&self) -> PathBuf {
        self.volume.mountpoint.join(OWN_FOLDER)
    }

    /// Starts the drainer if its user has asked for it and it does not run. Says whether the user has.
    fn start_drainer(&self) -> anyhow::Result<bool> {
        let Some(mut words) = self.request()? else { return Ok(false) };
        let from = self.drained(&take(&mut words, "--from"));
        OURS.iter().for_each(|option| drop(take(&mut words, option)));
        if drain::order(&self.state(), Order::Status)?.is_some() {
            return Ok(true);
        }
        let owner = &self.spec.owner;
        let mut command = Command::new(&self.setting.program);
        command.args(words).arg("--owner").arg(format!("{}:{}", owner.uid, owner.gid));
        command.arg("--from").arg(from).arg("--state").arg(self.state());
        daemon::spawn::detached(&mut command, &self.volume.folder.join("drain.log"))?;
        // It reads its ledger, then it answers.
        for _ in 0..100 {
            if drain::order(&self.state(), Order::Status)?.is_some() {
                break;
            }
            std::thread::sleep(PERIOD / 10);
        }
        Ok(true)
    }

    /// The words of the user's request. The user may have put anything there, so no link is followed.
    fn request(&self) -> anyhow::Result<Option<Vec<String>>> {
        let root = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
            .open(&self.volume.mountpoint)?;
        let path = PathBuf::from(OWN_FOLDER).join(REQUEST);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let file = match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            file => std::fs::File::from(file?),
        };
        let mut text = Vec::new();
        file.take(REQUEST_BYTES_MAX).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Where the node has the folder that its user calls `from`.
    fn drained(&self, from: &str) -> PathBuf {
        let below = Path::new(from).strip_prefix(&self.volume.path).unwrap_or(Path::new(""));
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
