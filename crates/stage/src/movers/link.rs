//! The connection to a mover, for several threads at a time.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{FragmentIndex, NodeName};
use wire::control::Side;
use wire::data::{Connection, Stream};
use wire::mover::{Answer, Order};
use wire::node::StageSpec;

use crate::context::Context;
use crate::remote::RemoteNode;

/// How long who waits for an answer takes to notice that the stage stops.
const NAP: Duration = Duration::from_millis(100);

/// A host that went silent is noticed by each side within 11 s. The coordinator waits as long again, so that a mover
/// that lives and is cut off has ended before its work is done by others.
const SILENT_MAX: Duration = Duration::from_secs(11);

/// How long a mover may take for its first answer: it looks up the owner's groups and connects to the buffer.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// A mover.
pub(crate) struct Link {
    pub(super) node: NodeName,
    pub(super) fragment: FragmentIndex,
    /// What its parts are called, as `m2-`.
    pub(super) name: String,
    /// What the stage copies, for remarks.
    source: String,
    stream: Stream,
    sender: Mutex<Connection>,
    waiting: Arc<Mutex<Waiting>>,
    usable: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    answers: HashMap<u64, Sender<Answer>>,
    lost: bool,
}

impl Link {
    /// Tells a mover which stage it works for.
    pub(super) fn begin(
        stream: Stream,
        node: &RemoteNode,
        context: &Context,
        spec: &StageSpec,
    ) -> io::Result<Link> {
        let name = format!("m{}-", node.fragment);
        let link = Link {
            node: node.node.clone(),
            fragment: node.fragment,
            name: name.clone(),
            source: spec.source.clone(),
            sender: Mutex::new(Connection::new(stream.try_clone()?)),
            waiting: Arc::default(),
            usable: AtomicBool::new(true),
            stream,
        };
        link.listen()?;
        let mut open = spec.clone();
        open.target.credential = None;
        let order = Order::Begin { stage: serde_json::to_vec(&open)?, run: context.journal.run(), name };
        match link.call(context, "begin", &context.id, Some(BEGIN_WITHIN), &order) {
            Some(Answer::Ready) => Ok(link),
            Some(Answer::Refused(why)) => Err(io::Error::other(why)),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
            None => Err(io::Error::other("it ended or did not answer; see the log of its service")),
        }
    }

    /// Gives an order, which concerns `path`, and waits for the answer; `None`: the mover is lost, or the stage stops.
    pub(super) fn order(&self, context: &Context, path: &Path, order: &Order) -> Option<Answer> {
        self.call(context, "copy on another storage node", &path.to_string_lossy(), None, order)
    }

    fn call(
        &self,
        context: &Context,
        operation: &'static str,
        path: &str,
        within: Option<Duration>,
        order: &Order,
    ) -> Option<Answer> {
        let (sender, answer) = channel();
        let number = {
            let mut waiting = self.waiting();
            if waiting.lost {
                return None;
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.answers.insert(number, sender);
            number
        };
        let sent = self.sender.lock().expect("no thread panics with the lock").send(number, order, &[]);
        if sent.is_err() {
            // The listener hears of it too, and only then is the mover gone for sure.
            self.stream.shutdown();
        }
        let mut waited = Duration::ZERO;
        context.monitor.stalls.watch(Side::Pfs, operation, Path::new(path), || {
            loop {
                match answer.recv_timeout(NAP) {
                    Ok(answer) => return Some(answer),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => waited += NAP,
                }
                if context.monitor.is_stopping() || within.is_some_and(|within| waited > within) {
                    return None;
                }
            }
        })
    }

    /// Whether it may be given work.
    pub(super) fn is_usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed) && !self.waiting().lost
    }

    /// It is not given work any more, and why.
    pub(super) fn give_up(&self, context: &Context, why: &str) {
        if self.usable.swap(false, Ordering::Relaxed) && !context.monitor.is_stopping() {
            let text = format!("storage node {} does not help any more: {why}", self.node);
            context.remark(&self.source, &text);
        }
    }

    /// Starts the thread that hands answers to those who wait for them.
    fn listen(&self) -> io::Result<()> {
        let (waiting, mut connection) = (self.waiting.clone(), Connection::new(self.stream.try_clone()?));
        let listen = move || {
            let end = loop {
                match connection.receive::<Answer>() {
                    Ok(frame) => {
                        let answer =
                            waiting.lock().expect("no thread panics with the lock").answers.remove(&frame.id);
                        // Nobody waits any more when the stage stops.
                        answer.map(|answer| answer.send(frame.message));
                    }
                    Err(end) => break end,
                }
            };
            let closed =
                [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            if !closed.contains(&end.kind()) {
                std::thread::sleep(SILENT_MAX);
            }
            let mut waiting = waiting.lock().expect("no thread panics with the lock");
            waiting.lost = true;
            waiting.answers.clear();
        };
        std::thread::Builder::new().name(format!("mover-{}", self.node)).spawn(listen).map(drop)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no thread panics with the lock")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The mover ends when its connection does.
        self.stream.shutdown();
    }
}
