//! Another credential for this mount: its node puts it into the specification while the key of the buffer is changed,
//! and waits until this process has read it. Each new connection reads it. Here the process learns of it at once, as
//! what it sends on open connections may have to be encrypted from then on.

use std::path::Path;

use anyhow::Context;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use wire::data::renewed::{self, MARK};
use wire::node::MountSpec;

/// Room for some events, bytes: each is at most a head and a name long.
const EVENTS_BYTES: usize = 4096;

/// What is logged where no watch could be had, as beyond the sysctl fs.inotify.max_user_instances.
const UNWATCHED: &str = "cannot watch for a new key (inotify): if the buffer's pool is encrypted later, mount the \
     buffer again, as what this mount says stays unencrypted until then";

/// What is logged when this process hears of no more keys.
const ENDED: &str = "stopped watching for a new key (inotify): changing the key of the buffer, if it is encrypted, \
     fails until it is mounted again";

/// Reads the specification of a mount.
///
/// # Errors
/// It cannot be read or understood; the path is named.
pub fn specification(path: &Path) -> anyhow::Result<MountSpec> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    kept::decode(&text, kept::OF_NODES).with_context(|| format!("understand {}", path.display()))
}

/// From here on this process has the newest credential of the specification at `path`, and its node knows.
///
/// # Errors
/// The node cannot be told. Where the kernel has no watch left only that is told that newer ones are looked for.
pub fn begin(path: &Path) -> anyhow::Result<()> {
    let kept = path.to_owned();
    renewed::look_by(move |_| specification(&kept).ok()?.target.credential);
    let queue = match watch(path) {
        Ok(queue) => queue,
        Err(error) => {
            tracing::warn!(%error, "{UNWATCHED}");
            return say(path, "");
        }
    };
    hear(path)?;
    let path = path.to_owned();
    let watching = move || {
        let mut events = vec![std::mem::MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = inotify::Reader::new(&queue, &mut events);
        loop {
            let is_it = match events.next() {
                Ok(event) => event.file_name().map(|name| name.to_bytes()) == name_of(&path),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return tracing::error!(%error, "{ENDED}"),
            };
            if is_it && let Err(error) = hear(&path) {
                tracing::error!(%error, "cannot take the new key of the buffer: change it again");
            }
        }
    };
    std::thread::Builder::new().name("renewing".into()).spawn(watching).context("start a thread")?;
    Ok(())
}

/// A queue that says when the specification is replaced.
fn watch(path: &Path) -> rustix::io::Result<std::os::fd::OwnedFd> {
    let queue = inotify::init(CreateFlags::CLOEXEC)?;
    let _watch = inotify::add_watch(&queue, path.parent().unwrap_or(Path::new(".")), WatchFlags::MOVED_TO)?;
    Ok(queue)
}

fn name_of(path: &Path) -> Option<&[u8]> {
    path.file_name().map(std::os::unix::ffi::OsStrExt::as_bytes)
}

/// Goes by the credential that is in the specification now, and says so.
fn hear(path: &Path) -> anyhow::Result<()> {
    let Some(credential) = specification(path)?.target.credential else { return say(path, "") };
    renewed::heard(&credential);
    say(path, &renewed::tag(&credential))
}

fn say(path: &Path, tag: &str) -> anyhow::Result<()> {
    std::fs::write(path.with_file_name(MARK), tag).context("say which credential is known")
}
