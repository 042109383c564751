//! A drainer's socket on its node: one word in, one line of JSON out.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{Mode, OFlags};

use crate::drain::Drain;
use crate::status::Status;

/// The socket's name in the drainer's folder.
const NAME: &str = "door";

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
    /// End.
    Stop,
}

impl Order {
    const ALL: [Order; 5] = [Order::Status, Order::Pause, Order::Resume, Order::Hurry, Order::Stop];

    fn word(self) -> &'static str {
        match self {
            Order::Status => "status",
            Order::Pause => "pause",
            Order::Resume => "resume",
            Order::Hurry => "hurry",
            Order::Stop => "stop",
        }
    }
}

/// Tells the drainer whose folder is `state`; gives what it says of itself then. `None`: there is no drainer.
///
/// # Errors
/// It does not answer.
pub fn order(state: &Path, order: Order) -> anyhow::Result<Option<Status>> {
    let Ok(short) = Short::of(state) else { return Ok(None) };
    let Ok(mut stream) = UnixStream::connect(short.path()) else { return Ok(None) };
    let asked = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| writeln!(stream, "{}", order.word()))
        .context("write to the drainer's socket");
    asked?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("read from the drainer's socket")?;
    Ok(Some(serde_json::from_str(&line).context("understand the drainer")?))
}

impl Drain {
    /// Answers whoever may open the socket, which is the drainer's user, until it is told to stop.
    pub(crate) fn answer(&self, state: &Path) -> anyhow::Result<()> {
        let listener = listen(state)?;
        for stream in listener.incoming() {
            match stream.map(|stream| self.answer_one(stream)) {
                Ok(Ok(Some(Order::Stop))) => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) | Err(error) => tracing::debug!("a caller went away: {error}"),
            }
        }
        Ok(())
    }

    fn answer_one(&self, stream: UnixStream) -> std::io::Result<Option<Order>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let order = Order::ALL.into_iter().find(|order| order.word() == line.trim());
        match order {
            Some(Order::Pause) => self.pause(true),
            Some(Order::Resume) => self.pause(false),
            Some(Order::Hurry) => self.throttle.hurry(),
            Some(Order::Status | Order::Stop) | None => {}
        }
        let mut reply = serde_json::to_vec(&self.status())?;
        reply.push(b'\n');
        (&stream).write_all(&reply)?;
        Ok(order)
    }
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
    let short = Short::of(state)?;
    UnixListener::bind(short.path()).with_context(|| format!("listen on {}", path.display()))
}

/// A socket's path that fits into an address however deep its folder is.
struct Short(std::os::fd::OwnedFd);

impl Short {
    fn of(folder: &Path) -> anyhow::Result<Short> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())
            .with_context(|| format!("open the folder {}", folder.display()))?;
        Ok(Short(folder))
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/{NAME}", self.0.as_raw_fd()).into()
    }
}
