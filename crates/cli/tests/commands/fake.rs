//! A control service that does nothing but answer, and remembers what it was asked.

mod replies;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use model::phase::{Function, Phase, StageState};
use serde_json::json;
use server::Refusal;
use wire::control::{ErrorCode, NewToken, Paths, PersistentStatus, SessionStatus, TeardownReply};

/// A service, its state folder, and a folder for scripts.
pub struct Fake {
    folder: tempfile::TempDir,
    inner: Arc<Mutex<Inner>>,
    _runtime: tokio::runtime::Runtime,
}

/// What the service is and does.
pub struct Inner {
    buffer: PathBuf,
    session: SessionStatus,
    /// The `POST`s so far, without their tokens.
    pub calls: Vec<String>,
    /// Functions that fail.
    pub failing: BTreeSet<&'static str>,
    /// Functions whose connection breaks once, after they were carried out.
    pub breaking: BTreeSet<&'static str>,
    /// Functions that are refused once because the service is being stopped.
    pub stopping: BTreeSet<&'static str>,
    /// Functions that do not come to an end while they are in here.
    pub hanging: BTreeSet<&'static str>,
    /// How often the mount was lost.
    pub interruptions: u32,
    cancelled: bool,
}

impl Fake {
    /// Starts it on a new state folder.
    pub fn start() -> Fake {
        let folder = tempfile::tempdir().unwrap();
        let buffer = folder.path().join("buffer");
        for name in ["buffer", "work", "state"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let inner = Inner {
            session: replies::session(),
            buffer,
            calls: vec![],
            failing: BTreeSet::new(),
            breaking: BTreeSet::new(),
            stopping: BTreeSet::new(),
            cancelled: false,
            hanging: BTreeSet::new(),
            interruptions: 0,
        };
        let inner = Arc::new(Mutex::new(inner));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::bind(folder.path().join("state/control.sock")).unwrap()
        };
        let router = Router::new().fallback(answer).with_state(inner.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Fake { folder, inner, _runtime: runtime }
    }

    /// Changes or asks what it does.
    pub fn with<T>(&self, action: impl FnOnce(&mut Inner) -> T) -> T {
        action(&mut self.inner.lock().unwrap())
    }

    /// What was asked of it.
    pub fn calls(&self) -> Vec<String> {
        self.with(|inner| inner.calls.clone())
    }

    /// How often `function` was called.
    pub fn count(&self, function: &str) -> usize {
        self.calls().iter().filter(|call| *call == function).count()
    }

    /// The folder that commands and scripts start in.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Whether the script has made this file in the folder that it started in.
    pub fn made(&self, name: &str) -> bool {
        self.work().join(name).exists()
    }

    /// Writes a script with one stage each way and `commands`; returns its path.
    pub fn script(&self, commands: &str) -> String {
        let path = self.work().join("job.sh");
        let directives = "#DW jobdw capacity=1GiB access_mode=striped type=scratch\n\
            #DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a\n\
            #DW stage_out type=file source=$DW_JOB_STRIPED/b destination=/pfs/b\n";
        std::fs::write(&path, format!("#!/bin/sh\n{directives}{commands}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `forebay WORDS` on the state folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(words).arg("--dir").arg(self.state()).current_dir(self.work()).stdin(Stdio::null());
        command
    }

    /// Runs `forebay WORDS` on a machine of the cluster whose control this is.
    pub fn on_cluster(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(words).current_dir(self.work()).stdin(Stdio::null()).env_remove("FOREBAY_DIR");
        command.env("FOREBAY_CONTROL", self.state().join("control.sock")).output().unwrap()
    }

    /// Runs `forebay WORDS` to its end.
    pub fn forebay(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Starts `forebay WORDS`.
    pub fn start_forebay(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

/// Waits until something is so; fails after a time that no machine needs.
#[track_caller]
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not come true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Standard output and standard error together, for messages.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn answer(State(inner): State<Arc<Mutex<Inner>>>, request: Request<Body>) -> Response {
    let path = request.uri().path().to_owned();
    let get = request.method() == "GET";
    let function = path.rsplit('/').next().unwrap_or_default().to_owned();
    if get {
        return inner.lock().unwrap().look(&function);
    }
    // A function goes on when its caller goes away.
    match tokio::spawn(carry_out(inner, function)).await {
        Ok(reply) => reply,
        // The end of its task is the end of the connection.
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    }
}

async fn carry_out(inner: Arc<Mutex<Inner>>, function: String) -> Response {
    inner.lock().unwrap().calls.push(function.clone());
    let hangs = |inner: &Arc<Mutex<Inner>>| inner.lock().unwrap().hanging.contains(function.as_str());
    if hangs(&inner) {
        inner.lock().unwrap().session.busy = named(&function);
        while hangs(&inner) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        inner.lock().unwrap().session.busy = None;
    }
    let (reply, breaks) = {
        let mut inner = inner.lock().unwrap();
        (inner.act(&function), inner.breaking.remove(function.as_str()))
    };
    if breaks {
        std::panic::resume_unwind(Box::new(()));
    }
    reply
}

impl Inner {
    fn look(&mut self, what: &str) -> Response {
        match what {
            "absent" | "scrub" => {
                let message = format!("session {what}: token not found");
                Refusal(daemon::error::user(ErrorCode::NoSuchSession, message, "look")).into_response()
            }
            "status" => json_reply(&json!({ "pools": [], "nodes": [], "sessions": [self.session] })),
            "paths" => {
                self.calls.push("paths".into());
                let path = format!("{}/", self.buffer.display());
                json_reply(&Paths { variables: [("DW_JOB_STRIPED".to_owned(), path)].into() })
            }
            _ if self.failing.contains("session") => self.fail("session"),
            _ => {
                for activation in &mut self.session.activations {
                    activation.interruptions = self.interruptions;
                }
                json_reply(&self.session)
            }
        }
    }

    /// Carries a function out.
    pub fn act(&mut self, function: &str) -> Response {
        if self.stopping.remove(function) {
            return Refusal(daemon::error::site(ErrorCode::Stopping, "it stops", "try again"))
                .into_response();
        }
        if function == "scrub" {
            return self.look(function);
        }
        if self.failing.contains(function) {
            return self.fail(function);
        }
        match function {
            "job_process" => return json_reply(&replies::job_summary()),
            "tokens" => return json_reply(&NewToken { token: self.session.token.clone() }),
            "setup" => self.session.phase = Phase::Ready,
            "data_in" => self.complete(0, Phase::StagedIn),
            "pre_run" => {
                self.mount();
                // `forebay` looks whether it is so, and here nothing is mounted.
                return json_reply(&SessionStatus { activations: vec![], ..self.session.clone() });
            }
            "post_run" => self.session.phase = Phase::Unmounted,
            "data_out" => self.complete(1, Phase::StagedOut),
            "teardown" => {
                self.session.phase = Phase::TornDown;
                return json_reply(&TeardownReply { kept: None, renamed: None });
            }
            // A cancelled copy stops, and is not complete.
            "cancel" => {
                self.cancelled = true;
                for copy in std::mem::take(&mut self.hanging) {
                    self.failing.insert(copy);
                }
            }
            "shutdown" => return json_reply(&json!({ "busy": null })),
            other => panic!("forebay asked for {other}"),
        }
        json_reply(&self.session)
    }

    /// Makes the session a job's of a workload manager.
    pub fn hand_to_slurm(&mut self) {
        self.session.caller = "SLURM".into();
    }

    /// Makes the session a persistent buffer that nobody has staged anything of.
    pub fn make_persistent(&mut self) {
        self.session.stages.clear();
        (self.session.phase, self.session.script.text) = (Phase::Ready, String::new());
        self.session.persistent = Some(PersistentStatus { shared: false, users: vec![] });
    }

    /// Has its buffer mounted, as a job's that this `forebay` knows nothing of.
    pub fn mount(&mut self) {
        // A new mount, which was never lost.
        self.interruptions = 0;
        self.session.phase = Phase::Mounted;
        self.session.activations = vec![replies::activation(&self.buffer)];
    }

    fn complete(&mut self, stage: usize, phase: Phase) {
        self.session.stages[stage].state = StageState::Complete;
        self.session.phase = phase;
    }

    fn fail(&mut self, function: &str) -> Response {
        let code = if self.cancelled { ErrorCode::Cancelled } else { ErrorCode::StageFailed };
        let error = daemon::error::user(code, format!("{function} failed"), "correct it");
        if let Some(stage) = ["data_in", "data_out"].iter().position(|name| *name == function) {
            let stage = &mut self.session.stages[stage];
            stage.state = StageState::Failed;
            stage.failures = vec![replies::failure(&stage.source.clone())];
        }
        self.session.failed = named(function).map(|function| (function, error.clone()));
        Refusal(error).into_response()
    }
}

fn json_reply(value: &impl serde::Serialize) -> Response {
    axum::Json(value).into_response()
}

fn named(function: &str) -> Option<Function> {
    serde_json::from_value(json!(function)).ok()
}
