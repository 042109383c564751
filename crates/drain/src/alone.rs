//! One drainer for one folder of its own, and for one folder that is drained.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use daemon::lock::{FolderLock, LockError};
use rustix::net::UCred;
use rustix::net::sockopt::socket_peercred;

use crate::top::Top;

/// How long a killed predecessor may take to end: the kernel first finishes what it has begun to write.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(10);

/// How often to check whether the predecessor has ended.
const PERIOD: Duration = Duration::from_millis(20);

/// Takes the lock; a predecessor that was killed may need a moment to be gone.
pub(crate) fn alone(path: &Path) -> Result<FolderLock, LockError> {
    daemon::lock::exclusive_within(path, PREDECESSOR_LIMIT)
}

/// Has the drained folder `top` for this process, as long as that lives and `top` does.
///
/// By the name of an abstract socket that is made of the folder's numbers, which are its own while it is held open.
/// That needs no right to write in the folder, leaves nothing there, ends with the process however that ends, and says
/// who has it. A lock file could be removed with the folder that it is in, or be in one of the job's own (`/dev/shm`);
/// an flock of the folder is what a program of the job may take, which would then wait for ever; and a status on the
/// PFS does not tell a drainer that was killed a moment ago from one that lives. It is not seen in another network
/// namespace.
///
/// # Errors
/// Another drainer has it.
pub(crate) fn drain_alone(top: &Top) -> anyhow::Result<()> {
    let folder = top.path().display();
    let (device, ino) = top.numbers();
    let name = SocketAddr::from_abstract_name(format!("forebay-drain/{device:x}/{ino:x}"))?;
    let give_up = Instant::now() + PREDECESSOR_LIMIT;
    // None: it has the name and does not listen yet, or is ending.
    let mut holder: Option<UCred> = None;
    loop {
        match UnixListener::bind_addr(&name) {
            Ok(listener) => {
                return keep(listener).context("start a thread that keeps others from the drained folder");
            }
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => Err(error).with_context(|| format!("note that {folder} is drained (socket)"))?,
        }
        // Once: one that stands still takes no connections, and only so many wait.
        if holder.is_none() {
            holder = holder_of(&name);
        }
        if let Some(UCred { uid, .. }) = holder
            && !(uid.is_root() || uid == rustix::process::geteuid() || Some(uid.as_raw()) == top.owner())
        {
            tracing::warn!("user {} holds the lock name of {folder}, and may not: ignored", uid.as_raw());
            return Ok(());
        }
        if Instant::now() >= give_up {
            let (who, advice) = holder.map_or_else(unknown, |holder| {
                let number = holder.pid.as_raw_nonzero();
                (format!("process {number}"), format!("end it (`kill {number}`)"))
            });
            bail!(
                "{folder} is drained by {who} already, which has another folder of its own (--state): each would \
                 take the other's files on the PFS for somebody else's; leave the drain to that one, or {advice}, \
                 then start this one again"
            );
        }
        std::thread::sleep(PERIOD);
    }
}

fn holder_of(name: &SocketAddr) -> Option<UCred> {
    socket_peercred(UnixStream::connect_addr(name).ok()?).ok()
}

fn unknown() -> (String, String) {
    ("another process".to_owned(), "end it".to_owned())
}

/// Listens until the process ends, only so that others hear who this is.
fn keep(listener: UnixListener) -> std::io::Result<()> {
    let listen = move || listener.incoming().for_each(drop);
    std::thread::Builder::new().name("alone".to_owned()).spawn(listen).map(drop)
}
