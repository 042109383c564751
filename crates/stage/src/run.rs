//! One run of a stage: what its threads share, and who works off what is found.

use std::ops::Deref;
use std::sync::Arc;

use crate::context::Context;
use crate::copier::{Copier, Here};
use crate::entry::Entry;
use crate::queue::Queue;
use crate::remote::RemoteWorkers;

/// One run; whatever needs nobody else to work asks for its [`Context`].
pub(crate) struct Run {
    pub(crate) context: Context,
    pub(crate) queue: Queue<Entry, dyn Copier>,
    /// This host.
    pub(crate) here: Arc<dyn Copier>,
    /// Workers on other hosts.
    pub(crate) remote: RemoteWorkers,
    /// Threads of this host that work off the queue.
    pub(crate) workers: usize,
}

impl Run {
    /// Nobody works off the queue: the caller copies entry by entry.
    pub(crate) fn new(context: Context) -> Run {
        let (queue, here) = (Queue::new(), Arc::new(Here { fragment: None }));
        Run { context, queue, here, remote: RemoteWorkers::default(), workers: 0 }
    }

    /// How many work off the queue: this host's workers, and the lanes to movers.
    pub(crate) fn workers_in_all(&self) -> usize {
        self.workers + self.remote.lanes()
    }
}

impl Deref for Run {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}
