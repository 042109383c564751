//! `forebay-stage`: runs one stage in the foreground, for the node service that supervises it; or copies for one on
//! another storage node (`--fragment`), for the node service that was asked to by the coordinator there.
//!
//! Prints a status line (JSON) on standard output at least twice a second and a last one at the end; log lines go to
//! standard error. Exits 0 when the stage is complete, 1 when it failed, and at once when nobody reads the lines any
//! more. Lines on standard input (JSON, `StagePace`) change its pace. SIGTERM cancels. Started again with the same
//! journal it goes on where it was.
//!
//! A mover's standard output is the connection to its coordinator, in both directions.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use client::Client;
use daemon::error::chain;
use model::{FragmentIndex, SessionId, phase::Direction, phase::StageState};
use rustix::net::AddressFamily;
use stage::at::At;
use stage::engine::Engine;
use stage::identity;
use stage::journal::Journal;
use stage::monitor::Monitor;
use stage::mover::{self, Post};
use stage::remote::RemoteNode;
use stage::session::SessionError;
use wire::control::{ApiError, Blame, ErrorCode, StageStatus};
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError};
use wire::data::{Reply, Request, Stream, handed_over};
use wire::node::{FragmentSpec, NamespaceTarget, StagePace, StageSpec, StorageAddress};

/// Pause between two status lines; the node is promised two a second.
const REPORT_PERIOD: Duration = Duration::from_millis(400);

/// Descriptors that 8 workers, which have the files of a batch open on both sides, and 4 lanes can have at once, and
/// some more.
const DESCRIPTORS: u64 = 8192;

/// Runs one stage, or copies for one that another node runs.
#[derive(Parser)]
#[command(name = "forebay-stage", version)]
struct Arguments {
    /// The stage, as the node service writes it (JSON).
    #[arg(long, requires = "journal", required_unless_present = "fragment")]
    spec: Option<PathBuf>,
    /// What earlier runs finished; made if missing.
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Only remove what killed runs left on the PFS; the stage is not to be run again.
    #[arg(long, requires = "spec")]
    clear: bool,
    /// Where this node's data path listens: the buffer's other nodes are to help.
    #[arg(long, requires = "spec")]
    data_address: Option<String>,
    /// Copy for the coordinator on standard output, a socket; this is the fragment here, as the node keeps it (JSON).
    #[arg(long, requires = "namespace", conflicts_with = "spec")]
    fragment: Option<PathBuf>,
    /// The namespace in it.
    #[arg(long)]
    namespace: Option<u32>,
    /// Also for root's stages.
    #[arg(long, requires = "fragment")]
    as_root: bool,
    /// A folder below which stages may reach the PFS; without one all of it
    #[arg(long)]
    pfs_root: Vec<PathBuf>,
}

fn main() -> Result<ExitCode> {
    daemon::begin::begin();
    let arguments = Arguments::parse();
    daemon::descriptors::raise(DESCRIPTORS);
    if let Some(spec) = arguments.spec.as_ref().or(arguments.fragment.as_ref()) {
        wire::data::moved::look_above(spec);
        // The owner's rights do not reach into the node's folder, and a node may be given up under the copies.
        wire::data::moved::keep_rights().context("start a thread that keeps this process's rights")?;
    }
    match arguments {
        Arguments { fragment: Some(fragment), namespace: Some(namespace), as_root, pfs_root, .. } => {
            help(&fragment, namespace, as_root, pfs_root)
        }
        Arguments { spec: Some(spec), journal: Some(journal), clear: true, .. } => clear(&spec, &journal),
        Arguments { spec: Some(spec), journal: Some(journal), data_address, pfs_root, .. } => {
            coordinate((&spec, &journal), data_address.as_deref(), &pfs_root)
        }
        _ => unreachable!("clap has checked what goes with what"),
    }
}

/// A mover's life.
fn help(fragment: &Path, namespace: u32, as_root: bool, pfs_roots: Vec<PathBuf>) -> Result<ExitCode> {
    let spec: FragmentSpec = read(fragment, kept::FRAGMENT)?;
    let socket = std::io::stdout().as_fd().try_clone_to_owned().context("use standard output as a socket")?;
    let stream = match rustix::net::sockopt::socket_domain(&socket).context("stdout is not a socket")? {
        AddressFamily::UNIX => Stream::Unix(socket.into()),
        _ => Stream::Tcp(socket.into()),
    };
    mover::serve(&stream, &Post { fragment: &spec, namespace, as_root, pfs_roots }, obey)?;
    // Whatever threads are still at: the coordinator has others do it.
    std::process::exit(0)
}

fn coordinate((spec, journal): (&Path, &Path), here: Option<&str>, roots: &[PathBuf]) -> Result<ExitCode> {
    let spec: StageSpec = read(spec, kept::OF_NODES)?;
    // A predecessor whose node died before it knew of it may still be at work, and two must not work on one stage.
    let _alone = daemon::lock::take_over(&journal.with_extension("lock"))?;
    // Before the change of identity: the state folder and the sockets in it are the service's, not the user's.
    let session = journal.with_extension("session");
    let at =
        At::create(&journal.with_extension("at")).context("make the file that tells what is being copied")?;
    let monitor = Arc::new(Monitor::new(&spec.policy));
    let opened = Journal::open(journal, &spec).map_err(|error| error.stage_error());
    let status = match opened.and_then(|journal| Ok((prepare(&spec, &session)?, journal))) {
        Ok((client, journal)) => {
            if spec.direction == Direction::In && journal.run() > 1 {
                // Blocks that it began with are read back. Names that it finds are believed, and may not be synced.
                client.inherit();
            }
            let remote_nodes = remote_nodes(&spec.target, client.session(), here);
            run(&spec, (client, roots), (remote_nodes, at), journal, &monitor)?
        }
        Err(error) => {
            monitor.fail_stage(error);
            monitor.verdict(&spec)
        }
    };
    print(&status).context("print the last status line")?;
    Ok(if status.state == StageState::Complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is left of a stage that nobody wants any more.
fn clear(spec: &Path, journal: &Path) -> Result<ExitCode> {
    let spec: StageSpec = read(spec, kept::OF_NODES)?;
    let _alone = daemon::lock::take_over(&journal.with_extension("lock"))?;
    let kept = Journal::open(journal, &spec)?;
    identity::assume(&spec.owner)?;
    let whole = Engine::clear(&spec, kept);
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read<T: kept::OnDisk>(path: &Path, format: u32) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("read specification {}", path.display()))?;
    kept::decode(&text, format).with_context(|| format!("understand specification {}", path.display()))
}

/// The fragment that is here, and the nodes of the others, which can help.
fn remote_nodes(
    target: &NamespaceTarget,
    session: SessionId,
    here: Option<&str>,
) -> (Option<FragmentIndex>, Vec<RemoteNode>) {
    let (mut own, mut others) = (None, Vec::new());
    let Some(here) = here else { return (own, others) };
    for (fragment, node) in FragmentIndex::of_each(&target.nodes) {
        if node.tcp == here {
            own = Some(fragment);
        } else if node.unix.is_none() {
            // With a socket that we could use it is on this host, where another process would be in the way.
            others.push(remote_node(target, session, fragment, node));
        }
    }
    (own, others)
}

fn remote_node(
    target: &NamespaceTarget,
    session: SessionId,
    fragment: FragmentIndex,
    node: &StorageAddress,
) -> RemoteNode {
    let (target, address) = (target.clone(), node.clone());
    // Not the client's own: a node ends all connections of a session when one of them was lost.
    let session = session.second();
    let start = move || {
        let credential = target.credential.clone().ok_or(std::io::ErrorKind::InvalidInput)?;
        let (instance, namespace) = (target.instance.clone(), target.namespace);
        let claim = Claim { instance, namespace, fragment, session };
        let failed = |error: HelloError| std::io::Error::other(chain(&error));
        let (mut connection, _) = dial(&address, Via::Tcp, &credential, &claim).map_err(failed)?;
        connection.send(0, &Request::StartMover, &[])?;
        match connection.receive::<Reply>()?.message {
            Reply::Done => handed_over::go_on(connection, &credential, &claim).map_err(failed),
            Reply::Failed(errno) => Err(std::io::Error::from_raw_os_error(errno)),
            _ => Err(std::io::ErrorKind::InvalidData.into()),
        }
    };
    RemoteNode { node: node.node.clone(), fragment, start: Box::new(start) }
}

/// Connects to the buffer and takes on the owner's rights.
fn prepare(spec: &StageSpec, session: &Path) -> Result<Client, ApiError> {
    let client = stage::session::noted(&spec.target, session).map_err(|error| {
        let (code, advice) = match &error {
            SessionError::Connect(_) => (
                ErrorCode::BufferUnreachable,
                "see `forebay status` for the storage nodes and look at their logs, then retry the stage",
            ),
            SessionError::Kept { .. } => (
                ErrorCode::StageSession,
                "mend the node's disk; where the file itself is damaged, remove it; then retry the stage",
            ),
        };
        ApiError { code, blame: Blame::Site, message: chain(&error), advice: advice.to_owned() }
    })?;
    identity::assume(&spec.owner).map_err(|error| ApiError {
        code: ErrorCode::StageIdentity,
        blame: Blame::Site,
        message: chain(&error),
        advice: "run the node service as root, or as the user whose files are staged".to_owned(),
    })?;
    // A folder that is made for a user has the mode that is asked for, whatever the service's umask is.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    Ok(client)
}

fn run(
    spec: &StageSpec,
    (client, pfs_roots): (Client, &[PathBuf]),
    ((here, remote_nodes), at): ((Option<FragmentIndex>, Vec<RemoteNode>), At),
    journal: Journal,
    monitor: &Arc<Monitor>,
) -> Result<StageStatus> {
    cancel_on_signal(monitor).context("wait for signals")?;
    obey(monitor);
    let (over, reporter) = start_reporter(spec, monitor);
    // Its thread for closes has the owner's rights, as all that are started from now on.
    let client = client.hold_closes();
    let status = Engine::new::<Client>(spec, pfs_roots, client)
        .with_movers(here, remote_nodes)
        .with_at(at)
        .run(spec, journal, monitor);
    // The reporter must be silent before the last line: nothing may come after it.
    drop(over);
    reporter.join().expect("the reporter does not panic");
    Ok(status)
}

/// Follows what the node says on standard input.
fn obey(monitor: &Arc<Monitor>) {
    let monitor = monitor.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match serde_json::from_str::<StagePace>(&line) {
                Ok(pace) => monitor.control(&pace),
                Err(error) => tracing::warn!(line, %error, "cannot understand an order from the node"),
            }
        }
    });
}

/// Prints status lines until its sender is dropped.
fn start_reporter(spec: &StageSpec, monitor: &Arc<Monitor>) -> (Sender<()>, std::thread::JoinHandle<()>) {
    let (over, is_over): (Sender<()>, Receiver<()>) = channel();
    let (spec, monitor) = (spec.clone(), monitor.clone());
    let reporter = std::thread::spawn(move || {
        loop {
            if print(&monitor.status(&spec, StageState::Active)).is_err() {
                // The node died. Its successor starts another worker with this journal; two must not write it.
                std::process::exit(1);
            }
            if is_over.recv_timeout(REPORT_PERIOD) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    (over, reporter)
}

fn print(status: &StageStatus) -> Result<()> {
    let mut line = serde_json::to_vec(status)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}

/// Cancels the stage on SIGTERM or SIGINT.
fn cancel_on_signal(monitor: &Arc<Monitor>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let terminated = {
        let _inside = runtime.enter();
        daemon::signal::terminated()?
    };
    let monitor = monitor.clone();
    std::thread::spawn(move || {
        runtime.block_on(terminated);
        monitor.cancel();
    });
    Ok(())
}
