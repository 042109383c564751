//! `forebay attend`: on each host of an allocation it starts the node, starts it again where it dies, and takes all of
//! it away when its standard input ends or a signal comes. With `--clear` it does only the last: for one that was
//! killed with SIGKILL, as Slurm does to the tasks of an `srun` that is killed.
//!
//! **Invariant:** it says that it ends, and what it could not take away, when it has tried; whoever does not hear that
//! of a host has it cleared.

mod clearing;

use std::io::{self, Write};
use std::process::Stdio;
use std::time::Duration;

use daemon::logging::last_words;
use model::NodeName;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use wire::control::{Allocation, Attended};

use self::clearing::Place;
use crate::env;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::interrupts::Interrupts;

/// How long the node may take to end by itself.
const END: Duration = Duration::from_secs(3);

/// Before a node that died is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// Attends the node of this host, or only clears it; the result is the process's exit status. Slurm ends the tasks on
/// all hosts at once when one fails, so that they could not clean up: what is said here is no failure.
///
/// # Errors
/// It is not told for which allocation.
pub async fn run(clear: bool) -> Result<u8, Failure> {
    let unavailable = |what: &str, why: String| Failure::unavailable(format!("{what}: {why}"), "report this");
    let interrupts = Interrupts::listen().map_err(|e| unavailable("listen for signals", e.to_string()))?;
    let (allocation, ended) = daemon::attended::told::<Allocation>()
        .map_err(|e| unavailable("read the allocation on standard input", e.to_string()))?;
    let node = env::slurm_node()
        .map(NodeName::unchecked)
        .ok_or_else(|| unavailable("find the name of this host", "SLURMD_NODENAME is not set".into()))?;
    use_all_processors();
    let place = Place::of(&allocation, &node);
    if !clear {
        tokio::select! {
            why = attend(&allocation, &node, &place) => say(&Attended::Failed { node: node.clone(), why }),
            () = ended => {},
            () = interrupts.reached(1) => {},
        }
    }
    let left = place.clear(END).await.err();
    say(&Attended::Cleared { node, left });
    Ok(ExitCode::Success.number())
}

/// Slurm may have bound the one task of its step to one processor. The job has others, and the kernel gives no more.
fn use_all_processors() {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|processor| all.set(processor));
    // With fewer it is slower, and no worse.
    let _ = sched_setaffinity(None, &all);
}

/// Keeps the node running; the result is why it cannot.
async fn attend(allocation: &Allocation, node: &NodeName, place: &Place) -> String {
    if let Err(why) = place.make() {
        return why;
    }
    loop {
        match live(allocation, node, place).await {
            Ok(true) => tokio::time::sleep(PAUSE).await,
            Ok(false) => {
                return last_words(&place.log()).unwrap_or_else(|| "its process ended without a word".into());
            }
            Err(error) => return format!("start forebay-node: {error}"),
        }
    }
}

/// One life of the node; whether it has served.
async fn live(allocation: &Allocation, node: &NodeName, place: &Place) -> io::Result<bool> {
    let mut child = start(node, place)?;
    // Held open to the end: so the node ends when this process is killed.
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    input.write_all(format!("{}\n", serde_json::to_string(allocation)?).as_bytes()).await?;
    place.note(input);
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let said = BufReader::new(output).lines().next_line().await?;
    let served = said.and_then(|line| serde_json::from_str(&line).ok());
    if let Some(served) = &served {
        say(served);
    }
    child.wait().await?;
    Ok(served.is_some())
}

fn start(node: &NodeName, place: &Place) -> io::Result<Child> {
    let errors = std::fs::File::options().append(true).create(true).open(place.log())?;
    Command::new(daemon::spawn::sibling("forebay-node")?)
        .args(["--attended", "--name", node.as_str(), "--dir"])
        .arg(place.state())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .current_dir("/")
        .spawn()
}

/// To the command that started the allocation; where it is gone this process is about to end.
fn say(said: &Attended) {
    let line = serde_json::to_string(said).expect("its keys are strings");
    let _ = writeln!(io::stdout(), "{line}");
}
