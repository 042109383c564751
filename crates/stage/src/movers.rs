//! Copying on other hosts: the coordinator plans, journals and gives files their names; a mover on the host of each
//! other storage node copies, with the rights of the stage's owner.
//!
//! ```text
//! coordinator                                               other storage node
//!   Recruit::hire -- data path: StartMover ------------------> its service starts `forebay-stage --fragment`
//!   Link  -- Begin, then Copy, ReadBack, Files -------------> serve: a few threads at a time
//!     ^ lanes: threads that take units and small files from the stage's queue and give them to their link
//! ```
//!
//! **Invariant:** what a mover did counts when it has answered, and a small file only once the coordinator has given it
//! its name: that fails where the mover sees another file system under the same path.

mod batch;
mod lane;
mod link;
mod record;
mod serve;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Scope;
use std::time::Duration;

use model::stripe::Layout;
use wire::data::Stream;
use wire::node::StageSpec;

use self::lane::Lane;
use self::link::Link;
pub use self::serve::{Post, ServeError, serve};
use crate::context::Context;
use crate::queue::Hand;
use crate::transfer::Copier;

/// Orders that a mover works on at once, and so threads that give it some.
pub(crate) const LANES: usize = 4;

/// From so much on, starting processes on other hosts is worth its time, some 50 ms.
const BYTES_MIN: u64 = 64 << 20;
const ENTRIES_MIN: u64 = 500;

/// How often it is looked whether there is so much.
const LOOK_EVERY: Duration = Duration::from_millis(10);

type Hire = dyn Fn() -> io::Result<Stream> + Send + Sync;

/// A storage node that may help.
pub struct Recruit {
    /// Its name, for messages.
    pub node: String,
    /// The fragment that is on it.
    pub fragment: u32,
    /// Has a mover started there; gives the connection to it.
    pub hire: Box<Hire>,
}

/// All helpers of a stage, and how files lie on them.
pub(crate) struct Crew {
    pub(crate) layout: Layout,
    recruits: Arc<Vec<Recruit>>,
    /// Of those that were asked and have not answered.
    pending: Mutex<usize>,
    answered: Condvar,
    at_work: AtomicUsize,
}

impl Default for Crew {
    /// Nobody.
    fn default() -> Crew {
        Crew::new(Layout::whole_files(1), Arc::default())
    }
}

impl Crew {
    pub(crate) fn new(layout: Layout, recruits: Arc<Vec<Recruit>>) -> Crew {
        let pending = Mutex::new(recruits.len());
        Crew { layout, recruits, pending, answered: Condvar::new(), at_work: AtomicUsize::new(0) }
    }

    /// Whether there is anybody who may help.
    pub(crate) fn has_recruits(&self) -> bool {
        !self.recruits.is_empty()
    }

    /// How a file of this size is divided: by fragments, if movers are at work.
    pub(crate) fn layout_for(&self, size: u64) -> Option<Layout> {
        if size >= BYTES_MIN {
            // They are being started, as so much was found.
            let pending = self.pending.lock().expect("no thread panics with the lock");
            let none = self.answered.wait_while(pending, |pending| *pending > 0);
            drop(none.expect("no thread panics with the lock"));
        }
        (self.at_work.load(Ordering::Acquire) > 0).then_some(self.layout)
    }

    /// Waits until there is work for more hosts, then starts movers and the lanes to them.
    pub(crate) fn recruit<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        context: &'s Arc<Context>,
        spec: &'s StageSpec,
    ) {
        if !self.has_recruits() {
            return;
        }
        while !context.monitor.has_found(BYTES_MIN, ENTRIES_MIN) {
            if context.run.queue.is_over() {
                return self.dismiss();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        for recruit in self.recruits.iter() {
            scope.spawn(move || {
                let link = (recruit.hire)().and_then(|stream| Link::begin(stream, recruit, context, spec));
                match link {
                    Ok(link) => {
                        context.monitor.helped(&link.node, 0);
                        self.at_work.fetch_add(1, Ordering::Release);
                        let link = Arc::new(link);
                        for _ in 0..LANES {
                            let lane = Lane::new(link.clone());
                            scope.spawn(move || lane.work(context));
                        }
                    }
                    Err(error) => {
                        let text = format!("storage node {} does not help: {error}", recruit.node);
                        context.remark(&spec.source, &text);
                    }
                }
                self.answer();
            });
        }
    }

    /// Threads that give movers their orders.
    pub(crate) fn lanes(&self) -> usize {
        LANES * self.at_work.load(Ordering::Relaxed)
    }

    fn answer(&self) {
        *self.pending.lock().expect("no thread panics with the lock") -= 1;
        self.answered.notify_all();
    }

    fn dismiss(&self) {
        *self.pending.lock().expect("no thread panics with the lock") = 0;
        self.answered.notify_all();
    }
}

/// A lane is a hand like this host's own.
pub(crate) fn as_hand(lane: &Arc<Lane>) -> Arc<dyn Copier> {
    lane.clone()
}

impl Hand for Lane {
    fn fragment(&self) -> Option<u32> {
        Some(self.link.fragment)
    }
}
