//! The connection to a mover, for several threads at a time.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use model::{FragmentIndex, NodeName};
use wire::control::Side;
use wire::data::{Connection, Frame, Stream};
use wire::mover::{Answer, Errand, Order, SILENCE_MAX};
use wire::node::StageSpec;

use crate::context::Context;
use crate::remote::RemoteNode;

/// How long who waits for an answer takes to notice that the stage stops.
const NAP: Duration = Duration::from_millis(100);

/// A host that went silent is noticed by each side within 11 s. The coordinator waits as long again, so that a mover
/// that lives and is cut off has ended before its work is done by others.
const CUT_OFF_MAX: Duration = Duration::from_secs(11);

/// How long a mover may take for its first answer: it looks up the owner's groups and connects to the buffer.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// What who waits for an answer is watched as.
const ORDER: &str = "copy on another storage node";

/// A nap that took so long: this process stood still, and has not read what came meanwhile.
const STOOD_STILL: Duration = Duration::from_secs(5);

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
    hangs: Arc<AtomicBool>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    answers: HashMap<u64, Sender<Answer>>,
    /// When it last gave a sign; former ones give none, and are never found to hang.
    heard: Option<Instant>,
    lost: Option<Lost>,
}

/// Why an order is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The mover has ended, or the stage stops.
    Ended,
    /// Nobody knows whether it still does something with what it had open.
    MayGoOn,
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
            hangs: Arc::default(),
            stream,
        };
        link.listen()?;
        let mut errand = Errand { stage: spec.clone(), signs: true };
        errand.stage.target.credential = None;
        let order = Order::Begin { stage: serde_json::to_vec(&errand)?, run: context.journal.run(), name };
        let begun = Instant::now();
        let is_over = || (begun.elapsed() > BEGIN_WITHIN).then_some(Lost::Ended);
        match link.call(context, "begin", &context.id, &order, is_over) {
            Ok(Answer::Ready) => Ok(link),
            Ok(Answer::Refused(why)) => Err(io::Error::other(why)),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(_) => Err(io::Error::other("it ended or did not answer; see the log of its service")),
        }
    }

    /// Gives an order, which concerns `path`, and waits for the answer. `probe` comes back where the mover would, if it
    /// were well: it does on this host what the order has it do.
    pub(super) fn order(
        &self,
        context: &Context,
        path: &Path,
        order: &Order,
        probe: impl Fn(),
    ) -> Result<Answer, Lost> {
        let mut since = Instant::now();
        let mut asked = since;
        let hangs = || {
            if std::mem::replace(&mut asked, Instant::now()).elapsed() > STOOD_STILL {
                since = asked;
            }
            // Where the PFS does not answer here either, nothing is gained.
            if !self.is_silent(since) || context.monitor.stalls.has_other(ORDER, SILENCE_MAX) {
                return None;
            }
            probe();
            if asked.elapsed() > SILENCE_MAX {
                // What it took here the mover may take, too.
                since = Instant::now();
            }
            asked = Instant::now();
            self.is_silent(since).then_some(Lost::MayGoOn)
        };
        let answer = self.call(context, ORDER, &path.to_string_lossy(), order, hangs);
        match answer {
            Err(Lost::MayGoOn) => {
                self.give_up(context, "it hangs or cannot be reached; what it was at is copied by others");
                // Should it go on, it sees by that that nobody waits for it.
                self.hangs.store(true, Ordering::Relaxed);
                self.stream.shutdown();
            }
            Err(Lost::Ended) => self.give_up(context, "its mover ended; what it was at is copied by others"),
            Ok(_) => {}
        }
        answer
    }

    /// Whether it has given no sign for too long, also since then.
    fn is_silent(&self, since: Instant) -> bool {
        self.waiting().heard.is_some_and(|heard| heard.max(since).elapsed() >= SILENCE_MAX)
    }

    /// Gives an order and waits until it is answered, or the mover is lost, or `is_lost` says that it is.
    fn call(
        &self,
        context: &Context,
        operation: &'static str,
        path: &str,
        order: &Order,
        mut is_lost: impl FnMut() -> Option<Lost>,
    ) -> Result<Answer, Lost> {
        let (sender, answer) = channel();
        let number = {
            let mut waiting = self.waiting();
            if let Some(lost) = waiting.lost {
                return Err(lost);
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
        context.monitor.stalls.watch(Side::Pfs, operation, Path::new(path), || {
            loop {
                match answer.recv_timeout(NAP) {
                    Ok(answer) => return Ok(answer),
                    Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
                    Err(RecvTimeoutError::Timeout) if context.monitor.is_stopping() => {
                        return Err(Lost::Ended);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if let Some(lost) = is_lost() {
                    return self.take_back(number, &answer).ok_or(lost);
                }
            }
        })
    }

    /// An order's answer does not count from now on; gives one that has come.
    fn take_back(&self, number: u64, answer: &Receiver<Answer>) -> Option<Answer> {
        self.waiting().answers.remove(&number);
        answer.try_recv().ok()
    }

    fn lost(&self) -> Lost {
        self.waiting().lost.unwrap_or(Lost::Ended)
    }

    /// Whether it may be given work.
    pub(super) fn is_usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed) && self.waiting().lost.is_none()
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
        let hangs = self.hangs.clone();
        let listen = move || {
            let end = loop {
                match connection.receive::<Answer>() {
                    Ok(frame) => waiting.lock().expect("no thread panics with the lock").take(frame),
                    Err(end) => break end,
                }
            };
            let closed =
                [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            let has_ended = closed.contains(&end.kind());
            if !has_ended {
                std::thread::sleep(CUT_OFF_MAX);
            }
            let has_ended = has_ended && !hangs.load(Ordering::Relaxed);
            let mut waiting = waiting.lock().expect("no thread panics with the lock");
            waiting.lost = Some(if has_ended { Lost::Ended } else { Lost::MayGoOn });
            waiting.answers.clear();
        };
        std::thread::Builder::new().name(format!("mover-{}", self.node)).spawn(listen).map(drop)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no thread panics with the lock")
    }
}

impl Waiting {
    /// Takes what the mover says.
    fn take(&mut self, frame: Frame<Answer>) {
        if frame.message == Answer::AtWork {
            self.heard = Some(Instant::now());
        } else if let Some(answer) = self.answers.remove(&frame.id) {
            // Nobody waits any more when the stage stops.
            let _ = answer.send(frame.message);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The mover ends when its connection does.
        self.stream.shutdown();
    }
}
