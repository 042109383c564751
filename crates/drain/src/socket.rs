//! A drainer's socket on its node: one word in, one line of JSON out.
//!
//! **Invariant:** both sides look who the other is. What has the socket's name in a user's folder may be anybody's: who
//! asks speaks only to a process of the folder's owner, through no link; a drainer listens only to its user and root.

use std::io::{BufRead, BufReader, ErrorKind, Read, Take, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use disk::below::by_descriptor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::drain::Drain;
use crate::settings::STOPPED;
use crate::status::{Answer, Status};
use disk::Room;

/// The socket's name in the drainer's folder.
const NAME: &str = "socket";

/// What it was in 0.1.0: a drainer outlives the upgrade of its node's programs.
const NAME_OF_0_1_0: &str = "door";

/// The longest reply that is read: an answer may name many files.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// How long a drainer may take to answer.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// What a drainer may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Say how it is.
    Status,
    /// Copy nothing until further notice.
    Pause,
    /// Go on.
    Resume,
    /// Copy without limit: the time is running out.
    Hurry,
    /// Copy without limit, and answer when all that is closed by now is decided.
    Settle,
    /// End.
    Stop,
}

impl Order {
    const ALL: [Order; 6] =
        [Order::Status, Order::Pause, Order::Resume, Order::Hurry, Order::Settle, Order::Stop];

    fn word(self) -> &'static str {
        match self {
            Order::Status => "status",
            Order::Pause => "pause",
            Order::Resume => "resume",
            Order::Hurry => "hurry",
            Order::Settle => "settle",
            Order::Stop => "stop",
        }
    }
}

/// Tells the drainer whose folder is `state`; gives what it says of itself then. `None`: there is no drainer.
///
/// # Errors
/// It does not answer.
pub fn order(state: &Path, order: Order) -> anyhow::Result<Option<Status>> {
    match try_order(state, order) {
        // It ended with us in its queue, if nobody listens any more.
        Err(error) if ended(&error) => try_order(state, order),
        told => told,
    }
}

fn try_order(state: &Path, order: Order) -> anyhow::Result<Option<Status>> {
    let Some(mut asked) = tell(state, order)? else { return Ok(None) };
    let mut line = String::new();
    asked.read_line(&mut line).context("read from the drainer's socket")?;
    understand(&line)
}

/// Whether the other side has ended the connection, perhaps with its life.
fn ended(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    let is_empty = || error.downcast_ref::<serde_json::Error>().is_some_and(serde_json::Error::is_eof);
    matches!(io, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)) || is_empty()
}

/// Has the drainer whose folder is `state` copy all that is closed by now, however long that takes, as long as it says
/// that it is there. `None`: there is no drainer.
///
/// # Errors
/// It ended meanwhile, or does not answer.
pub fn settle(state: &Path) -> anyhow::Result<Option<Answer>> {
    let Some(mut asked) = tell(state, Order::Settle)? else { return Ok(None) };
    let mut line = String::new();
    loop {
        match asked.read_line(&mut line) {
            Ok(_) => return understand(&line),
            // Its user may have stopped it. One that has ended says so on the connection.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                order(state, Order::Status).context("see whether the drainer still works")?;
            }
            Err(error) => return Err(error).context("read from the drainer's socket"),
        }
    }
}

/// A connection on which the drainer was told; `None`: there is no drainer.
fn tell(state: &Path, order: Order) -> anyhow::Result<Option<BufReader<Take<UnixStream>>>> {
    let Some(folder) = Folder::of(state)? else { return Ok(None) };
    let mut stream = match folder.connect() {
        Ok(stream) => stream,
        // Nobody listens: a socket that is there was left by one that was killed.
        Err(error) if disk::is_absent(&error) || error.kind() == ErrorKind::ConnectionRefused => {
            return Ok(None);
        }
        Err(error) => {
            let socket = state.join(NAME);
            return Err(error)
                .with_context(|| format!("connect to the drainer's socket {}", socket.display()));
        }
    };
    let told = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| writeln!(stream, "{}", order.word()));
    told.context("write to the drainer's socket")?;
    Ok(Some(BufReader::new(stream.take(REPLY_BYTES_MAX))))
}

fn understand<T: DeserializeOwned>(line: &str) -> anyhow::Result<Option<T>> {
    Ok(Some(serde_json::from_str(line).context("understand the drainer")?))
}

impl Drain {
    /// Answers the drainer's user and root until it is told to stop.
    pub(crate) fn answer(self: &Arc<Self>, state: &Path, room: &Room) -> anyhow::Result<()> {
        let listener = listen(state)?;
        room.take();
        loop {
            let stream = listener.accept().and_then(|(stream, _)| heard(stream));
            match stream.and_then(|stream| self.answer_one(stream, state, room)) {
                Ok(Some(asker)) => {
                    // Whoever comes from now on finds no drainer, rather than one that ends without a word.
                    drop(listener);
                    let _gone_perhaps = reply(&asker, &self.status());
                    return Ok(());
                }
                Ok(None) => {}
                Err(error) => tracing::debug!("a caller went away: {error}"),
            }
        }
    }

    /// Gives back who has told the drainer to stop, and is not answered yet.
    fn answer_one(
        self: &Arc<Self>,
        stream: UnixStream,
        state: &Path,
        room: &Room,
    ) -> std::io::Result<Option<UnixStream>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let order = Order::ALL.into_iter().find(|order| order.word() == line.trim());
        if has_gone(&stream)? {
            return Err(std::io::Error::other(format!("nobody waits for the answer to {line:?}")));
        }
        match order {
            Some(Order::Pause) => self.pause(true),
            Some(Order::Resume) => self.pause(false),
            Some(Order::Hurry) => self.hurry(),
            Some(Order::Settle) => {
                let drain = Arc::clone(self);
                // Whoever asked may be gone when it is settled; the answer then is the next one's.
                std::thread::Builder::new().spawn(move || {
                    drain.pause(false);
                    drain.hurry();
                    drop(reply(&stream, &drain.settle_at_end()));
                })?;
                return Ok(None);
            }
            // Before the reply: whoever has it may look at once.
            Some(Order::Stop) => {
                self.leave();
                if let Err(error) = room.or_give_up(|| stopped(state)) {
                    tracing::warn!("note that the user stopped the drain: {error}");
                }
                return Ok(Some(stream));
            }
            Some(Order::Status) | None => {}
        }
        reply(&stream, &self.status())?;
        Ok(None)
    }
}

/// Whether who asked has given up, and told its user so: perhaps long ago, if this process stood still.
fn has_gone(stream: &UnixStream) -> std::io::Result<bool> {
    let mut asker = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut asker, Some(&Timespec::default()))?;
    Ok(asker[0].revents().contains(PollFlags::HUP))
}

fn stopped(state: &Path) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    disk::regular::open(&state.join(STOPPED), flags, Mode::from_raw_mode(0o666)).map(drop)
}

fn reply(mut stream: &UnixStream, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn listen(state: &Path) -> anyhow::Result<UnixListener> {
    let path = state.join(NAME);
    // We hold the folder's lock: a socket that is there is nobody's.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("replace {}", path.display()));
        }
        _ => {}
    }
    let folder = Folder::of(state)?.with_context(|| format!("{} is gone", state.display()))?;
    // By its descriptor the path fits into an address however deep the folder is.
    UnixListener::bind(by_descriptor(&folder.0).join(NAME))
        .with_context(|| format!("listen on {}", path.display()))
}

/// The stream of somebody whom the drainer listens to.
fn heard(stream: UnixStream) -> std::io::Result<UnixStream> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if peer.is_root() || peer == rustix::process::geteuid() {
        return Ok(stream);
    }
    Err(std::io::Error::other(format!("user {} is told nothing", peer.as_raw())))
}

/// A drainer's folder.
struct Folder(OwnedFd);

impl Folder {
    /// `None`: there is no such folder.
    fn of(folder: &Path) -> anyhow::Result<Option<Folder>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(std::io::Error::from);
        let opened = disk::if_there(opened);
        let opened = opened.with_context(|| format!("open the drainer's folder {}", folder.display()))?;
        Ok(opened.map(Folder))
    }

    /// A connection to a process of the folder's owner.
    fn connect(&self) -> std::io::Result<UnixStream> {
        // Followed, a link would lead to another's drainer, who would do for root what root did not ask him.
        let open =
            |name| openat(&self.0, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let socket = open(NAME).or_else(|error| open(NAME_OF_0_1_0).map_err(|_| error))?;
        if !FileType::from_raw_mode(fstat(&socket)?.st_mode).is_socket() {
            return Err(std::io::Error::other("it is not a socket; remove it, and start the drainer again"));
        }
        let stream = UnixStream::connect(by_descriptor(&socket))?;
        let (peer, owner) =
            (rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw(), fstat(&self.0)?.st_uid);
        if peer != owner && peer != 0 {
            return Err(std::io::Error::other(format!(
                "user {peer} listens on it, and user {owner} owns the folder"
            )));
        }
        Ok(stream)
    }
}

#[cfg(test)]
mod tests;
