//! A drainer's socket on its node: one word in, one line of JSON out.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::drain::Drain;
use crate::settings::STOPPED;
use crate::status::{Answer, Status};
use disk::Room;

/// The socket's name in the drainer's folder.
const NAME: &str = "door";

/// The longest reply that is read: an answer may name many files.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// How long a drainer may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

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
    ask(state, order, Some(PATIENCE))
}

/// Has the drainer whose folder is `state` copy all that is closed by now, however long that takes. `None`: there is no
/// drainer.
///
/// # Errors
/// It ended meanwhile.
pub fn settle(state: &Path) -> anyhow::Result<Option<Answer>> {
    ask(state, Order::Settle, None)
}

fn ask<T: DeserializeOwned>(
    state: &Path,
    order: Order,
    patience: Option<Duration>,
) -> anyhow::Result<Option<T>> {
    let Some(short) = Short::of(state)? else { return Ok(None) };
    let mut stream = match UnixStream::connect(short.path()) {
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
    let asked = stream
        .set_read_timeout(patience)
        .and_then(|()| writeln!(stream, "{}", order.word()))
        .context("write to the drainer's socket");
    asked?;
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(REPLY_BYTES_MAX));
    reader.read_line(&mut line).context("read from the drainer's socket")?;
    Ok(Some(serde_json::from_str(&line).context("understand the drainer")?))
}

impl Drain {
    /// Answers whoever may open the socket, which is the drainer's user, until it is told to stop.
    pub(crate) fn answer(self: &Arc<Self>, state: &Path, room: &Room) -> anyhow::Result<()> {
        let listener = listen(state)?;
        room.take();
        loop {
            let stream = listener.accept().map(|(stream, _)| stream);
            match stream.and_then(|stream| self.answer_one(stream, state, room)) {
                Ok(Some(asker)) => {
                    // Who comes from now on finds no drainer, rather than one that ends without a word.
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
            // Before the reply: who has it may look at once.
            Some(Order::Stop) => {
                self.leave();
                if let Err(error) = room.or_give_up(|| std::fs::write(state.join(STOPPED), "")) {
                    tracing::warn!("end without a note that the user wants it: {error}");
                }
                return Ok(Some(stream));
            }
            Some(Order::Status) | None => {}
        }
        reply(&stream, &self.status())?;
        Ok(None)
    }
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
    let short = Short::of(state)?.with_context(|| format!("{} is gone", state.display()))?;
    UnixListener::bind(short.path()).with_context(|| format!("listen on {}", path.display()))
}

/// A socket's path that fits into an address however deep its folder is.
struct Short(std::os::fd::OwnedFd);

impl Short {
    /// `None`: there is no such folder.
    fn of(folder: &Path) -> anyhow::Result<Option<Short>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(std::io::Error::from);
        let opened = disk::if_there(opened);
        let opened = opened.with_context(|| format!("open the drainer's folder {}", folder.display()))?;
        Ok(opened.map(Short))
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/{NAME}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_not_there_is_no_drainer() {
        let parent = tempfile::tempdir().unwrap();
        let state = parent.path().join("state");
        assert!(order(&state, Order::Status).unwrap().is_none());
        std::fs::create_dir(&state).unwrap();
        assert!(order(&state, Order::Status).unwrap().is_none());
        // ECONNREFUSED: what a drainer leaves that was killed.
        drop(UnixListener::bind(state.join(NAME)).unwrap());
        assert!(order(&state, Order::Status).unwrap().is_none());
        // ELOOP: nobody knows.
        std::fs::remove_file(state.join(NAME)).unwrap();
        std::os::unix::fs::symlink(NAME, state.join(NAME)).unwrap();
        let error = format!("{:#}", order(&state, Order::Status).unwrap_err());
        assert!(error.contains("state"), "{error}");
        // ENAMETOOLONG
        settle(&parent.path().join("x".repeat(300))).unwrap_err();
    }
}
