//! The control service as commands see it: it is up, or it is started; a call whose reply was lost is made again.
//!
//! **Invariant:** every call through [`Service::get`] and [`Service::post`] is idempotent, so repeating one that may
//! have been carried out is harmless.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::{Duration, Instant};

use api::CallError;
use api::endpoint::Endpoint;
use daemon::client::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use wire::control::{ErrorCode, ShutdownReply, Status};

use crate::failure::Failure;
use crate::output::Output;
use crate::seen;

/// How long a call is repeated before the user hears that the service is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a start of the service may take until its socket answers: migrations and the re-adoption of nodes come
/// later.
const START: Duration = Duration::from_secs(15);

/// How long an attended service may take to end.
const END: Duration = Duration::from_secs(5);

/// How long nodes may take to report to a service that was just started.
const NODES: Duration = Duration::from_secs(3);

/// How long a call may take before we ask whether the service is there at all, and how long that may take.
pub const PROBED: Duration = Duration::from_secs(3);
pub const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Waiting that is longer than this is explained.
pub const EXPLAINED: Duration = Duration::from_secs(2);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// What is said while a service takes connections, or is to take them, and answers nothing.
pub fn does_not_answer(endpoint: &Endpoint) -> String {
    format!(
        "forebay: waiting for forebay-control, which does not answer at {endpoint}; an interrupt ends this command"
    )
}

/// The control service of one state folder.
pub struct Service {
    folder: PathBuf,
    client: Client,
    output: Output,
    started: Cell<bool>,
    /// What it is told where it is to end with this process, and by what it knows that this one lives.
    attended: Option<String>,
    held: RefCell<Option<ChildStdin>>,
}

impl Service {
    /// The service of the state folder `folder`. Touches nothing.
    pub fn new(folder: &Path, output: &Output) -> Service {
        Service {
            folder: folder.into(),
            client: Client::new(folder.join("control.sock")),
            output: output.clone(),
            started: Cell::new(false),
            attended: None,
            held: RefCell::default(),
        }
    }

    /// The same, of a service that is told `line` when it starts, and that ends with this process, with its folder.
    pub fn attended(self, line: String) -> Service {
        Service { attended: Some(line), ..self }
    }

    /// Ends an attended service, and waits until it and its folder are gone.
    pub async fn release(&self) {
        drop(self.held.take());
        let begin = Instant::now();
        while disk::exists(&self.folder).unwrap_or(true) && begin.elapsed() < END {
            tokio::time::sleep(PAUSE / 4).await;
        }
        // One that was killed left it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// The state folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the service if it does not answer.
    ///
    /// # Errors
    /// It does not come up.
    pub async fn ensure_up(&self) -> Result<(), Failure> {
        if UnixStream::connect(self.socket()).await.is_ok() {
            return Ok(());
        }
        let pid = self.spawn()?;
        let begin = Instant::now();
        while UnixStream::connect(self.socket()).await.is_err() {
            // Ours may have ended because another `forebay` started one at the same moment, which is then still
            // coming up: give that one a second.
            let ended = !disk::exists(Path::new(&format!("/proc/{pid}"))).unwrap_or(true);
            if begin.elapsed() > START || (ended && begin.elapsed() > Duration::from_secs(1)) {
                return Err(self.held_elsewhere().unwrap_or_else(|| self.unreachable("it does not start")));
            }
            tokio::time::sleep(PAUSE / 4).await;
        }
        self.started.set(true);
        Ok(())
    }

    /// The same for a command that has something mounted at or below `place`.
    ///
    /// # Errors
    /// It does not come up, or runs where its mounts are not seen by this process.
    pub async fn ensure_up_to_mount(&self, place: &Path) -> Result<(), Failure> {
        self.ensure_up().await?;
        // One that is just ending is started again, and what it then mounts is looked at.
        let Ok(service) = UnixStream::connect(self.socket()).await else { return Ok(()) };
        let pid = service.peer_cred().ok().and_then(|peer| peer.pid());
        pid.map_or(Ok(()), |pid| seen::check_service(&self.folder, pid, place))
    }

    /// Everything that an operator sees. A service that this process started gets a moment to hear from its nodes:
    /// until then it knows neither what is in a buffer nor whether its mounts live.
    ///
    /// # Errors
    /// The service is not to be reached for a minute.
    pub async fn status(&self) -> Result<Status, Failure> {
        let begin = Instant::now();
        loop {
            let status: Status = self.get("/v1/status").await?;
            let mut instances = status.sessions.iter().filter_map(|session| session.instance.as_ref());
            let silent = status.nodes.iter().any(|node| !node.online)
                || instances.any(|instance| instance.intact.is_none());
            if !silent || !self.started.get() || begin.elapsed() > NODES {
                return Ok(status);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// The service refused, or is not to be reached for a minute.
    pub async fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, Failure> {
        self.repeat(async || self.client.get(path).await).await
    }

    /// `POST path`.
    ///
    /// # Errors
    /// The service refused, or is not to be reached for a minute.
    pub async fn post<B: Serialize, R: DeserializeOwned>(&self, path: &str, body: &B) -> Result<R, Failure> {
        self.repeat(async || self.client.post(path, body).await).await
    }

    /// A client for calls that are made once, and whose loss does not matter.
    pub fn once(&self, limit: Duration) -> Client {
        self.client.clone().with_timeout(limit)
    }

    /// Stops the service and its nodes if nothing needs them; says nothing if something does.
    pub async fn stop_if_idle(&self) {
        // An error is a service that is gone already, or one that a later command stops.
        let _: Result<ShutdownReply, _> =
            self.once(Duration::from_secs(10)).post("/v1/shutdown", &serde_json::json!({})).await;
    }

    /// The same, where this process started the service: another process's is left alone.
    pub async fn stop_if_started(&self) {
        if self.started.get() {
            self.stop_if_idle().await;
        }
    }

    async fn repeat<R>(&self, call: impl AsyncFn() -> Result<R, CallError>) -> Result<R, Failure> {
        let mut trouble: Option<Instant> = None;
        let mut explained = false;
        loop {
            let asked = Instant::now();
            let cause = match self.noting(call(), &mut explained).await {
                Ok(reply) => return Ok(reply),
                // Another command found it idle at the moment that we came.
                Err(CallError::Refused(error)) if error.code == ErrorCode::Stopping => error.message,
                Err(CallError::Refused(error)) => return Err(Failure::Api(error)),
                Err(error @ CallError::Garbled { .. }) => return Err(Failure::Garbled(error.reason())),
                Err(error) => error.reason(),
            };
            if asked.elapsed() > PATIENCE {
                // The service was well for all that time: this is a new trouble.
                trouble = None;
            }
            let since = *trouble.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                return Err(self.unreachable(&cause));
            }
            if since.elapsed() > EXPLAINED && !explained {
                self.output.note("forebay: waiting for forebay-control, which is being started again");
                explained = true;
            }
            tokio::time::sleep(PAUSE).await;
            // A failed start is tried again as well, until patience ends.
            let _ = self.ensure_up().await;
        }
    }

    /// Awaits a reply; says so once where the service answers nothing at all meanwhile.
    async fn noting<R>(&self, call: impl Future<Output = R>, explained: &mut bool) -> R {
        let mut call = std::pin::pin!(call);
        loop {
            if let Ok(reply) = tokio::time::timeout(PROBED, &mut call).await {
                return reply;
            }
            if !*explained
                && let Err(CallError::Unreachable { endpoint, .. }) =
                    self.once(PROBE_LIMIT).get::<serde_json::Value>("/v1/pools").await
            {
                self.output.note(&does_not_answer(&endpoint));
                *explained = true;
            }
        }
    }

    fn spawn(&self) -> Result<u32, Failure> {
        let program = daemon::spawn::sibling("forebay-control").map_err(|e| {
            Failure::unavailable(format!("start forebay-control: {e}"), "repair the installation")
        })?;
        let log = self.log();
        let folder = log.parent().unwrap_or(&self.folder);
        disk::state::make_inside(folder).map_err(|e| Failure::local("make", folder, &e))?;
        // Says in the log who starts it, and here that the disk is full where the service could not say so itself.
        let line = format!("forebay (process {}) starts forebay-control\n", std::process::id());
        let appended = File::options().append(true).create(true).mode(0o600).open(&log);
        appended
            .and_then(|mut log| log.write_all(line.as_bytes()))
            .map_err(|e| Failure::local("write", &log, &e))?;
        let mut command = Command::new(&program);
        command.arg("--dir").arg(&self.folder);
        let started = match &self.attended {
            None => daemon::spawn::detached(&mut command, &log),
            Some(line) => {
                daemon::spawn::attended(command.arg("--attended"), &log).and_then(|(pid, mut input)| {
                    writeln!(input, "{line}")?;
                    self.held.replace(Some(input));
                    Ok(pid)
                })
            }
        };
        started.map_err(|e: io::Error| Failure::local("start", &program, &e))
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log/control.log")
    }

    /// Where another host or container has the state folder: its processes have other numbers, and its socket is not
    /// reached from here.
    fn held_elsewhere(&self) -> Option<Failure> {
        let holder = daemon::lock::distant_holder(&self.folder.join("control.lock"))?;
        let what =
            format!("forebay-control (process {holder} there) runs on another host, or in a container");
        Some(seen::elsewhere(&self.folder, &what))
    }

    fn unreachable(&self, cause: &str) -> Failure {
        let log = self.log();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let cause = last.map_or(cause.to_owned(), |line| format!("{cause} (it said last: {})", line.trim()));
        Failure::Unreachable { cause, log }
    }
}
