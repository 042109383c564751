//! Storage nodes that may help a stage, and how many of them do.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use model::stripe::Layout;
use model::{FragmentIndex, NodeName};
use wire::data::Stream;

/// Orders that a mover works on at once, and so threads that give it some.
pub(crate) const LANES: usize = 4;

/// From so many bytes on, starting processes on other hosts is worth its time, some 50 ms.
pub(crate) const BYTES_MIN: u64 = 64 << 20;

type Start = dyn Fn() -> io::Result<Stream> + Send + Sync;

/// A storage node that may help.
pub struct RemoteNode {
    /// Its name, for messages.
    pub node: NodeName,
    /// The fragment that is on it.
    pub fragment: FragmentIndex,
    /// Has a mover started there; gives the connection to it.
    pub start: Box<Start>,
}

/// The workers of a stage on other hosts, and how files lie on these.
pub(crate) struct RemoteWorkers {
    pub(crate) layout: Layout,
    pub(crate) nodes: Arc<Vec<RemoteNode>>,
    /// Of those that were asked and have not answered.
    pending: Mutex<usize>,
    answered: Condvar,
    at_work: AtomicUsize,
}

impl Default for RemoteWorkers {
    /// Nobody.
    fn default() -> RemoteWorkers {
        RemoteWorkers::new(Layout::whole_files(1), Arc::default())
    }
}

impl RemoteWorkers {
    pub(crate) fn new(layout: Layout, nodes: Arc<Vec<RemoteNode>>) -> RemoteWorkers {
        let pending = Mutex::new(nodes.len());
        RemoteWorkers { layout, nodes, pending, answered: Condvar::new(), at_work: AtomicUsize::new(0) }
    }

    /// Whether there is anybody who may help.
    pub(crate) fn may_help(&self) -> bool {
        !self.nodes.is_empty()
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

    /// One more is at work.
    pub(crate) fn joined(&self) {
        self.at_work.fetch_add(1, Ordering::Release);
    }

    /// Threads that give movers their orders.
    pub(crate) fn lanes(&self) -> usize {
        LANES * self.at_work.load(Ordering::Relaxed)
    }

    /// One that was asked has answered.
    pub(crate) fn answer(&self) {
        *self.pending.lock().expect("no thread panics with the lock") -= 1;
        self.answered.notify_all();
    }

    /// None will be asked.
    pub(crate) fn dismiss(&self) {
        *self.pending.lock().expect("no thread panics with the lock") = 0;
        self.answered.notify_all();
    }
}
