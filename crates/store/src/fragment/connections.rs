//! The connections that a fragment serves, and who ends which of them.
//!
//! **Invariant:** who fences goes on only when nothing is being done any more for those that it has fenced off.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use model::SessionId;
use wire::data::Stream;
use wire::data::member::Member;

/// All of them.
#[derive(Default)]
pub struct Connections {
    all: Mutex<All>,
    /// Told whenever one was served to its end.
    served: Condvar,
}

#[derive(Default)]
struct All {
    open: HashMap<u64, Served>,
    next: u64,
    closed: bool,
}

/// A connection that is served.
struct Served {
    stream: Arc<Stream>,
    whose: Whose,
    /// Another of its session, or of who took its place, has ended it; what it was asked before may still be under way.
    fenced: bool,
}

/// Whose a connection is: a session, in a namespace.
type Whose = (SessionId, u32);

impl Served {
    fn end(&mut self) {
        self.stream.shutdown();
        self.fenced = true;
    }

    /// Whether it is of the session `by`, or of whoever that took the place of.
    fn is_fenced_by(&self, by: Whose) -> bool {
        let was_followed = || {
            let (former, next) = (Member::of(self.whose.0)?, Member::of(by.0)?);
            Some(next.follows(former) && next.role == former.role && by.1 == self.whose.1)
        };
        self.whose == by || was_followed().unwrap_or(false)
    }
}

impl Connections {
    /// Notes a connection, so that it can be ended with the fragment. Gives its number; `None` once that is closed.
    pub fn add(&self, stream: Arc<Stream>, session: SessionId, namespace: u32) -> Option<u64> {
        let mut all = self.lock();
        if all.closed {
            return None;
        }
        let number = all.next;
        all.next += 1;
        all.open.insert(number, Served { stream, whose: (session, namespace), fenced: false });
        Some(number)
    }

    /// Ends and forgets a connection that is not served any more.
    pub fn remove(&self, number: u64) {
        if let Some(served) = self.lock().open.remove(&number) {
            served.stream.shutdown();
        }
        self.served.notify_all();
    }

    /// Ends every other connection of the session that the connection `own` belongs to, or of whoever it has taken the
    /// place of, and waits until they are served to their ends.
    pub fn fence(&self, own: u64) {
        let mut all = self.lock();
        let Some(whose) = all.open.get(&own).map(|served| served.whose) else { return };
        let mut others = Vec::new();
        for (number, served) in &mut all.open {
            if *number != own && served.is_fenced_by(whose) {
                served.end();
                others.push(*number);
            }
        }
        // One of them may be waiting for us likewise.
        self.served.notify_all();
        let still = |all: &mut All| {
            let is_fenced = all.open.get(&own).is_none_or(|served| served.fenced);
            !is_fenced && others.iter().any(|n| all.open.contains_key(n))
        };
        drop(self.served.wait_while(all, still).expect(POISON));
    }

    /// Ends those of whoever this one has taken the place of.
    pub fn end_former(&self, next: Member) {
        let former =
            |served: &&mut Served| Member::of(served.whose.0).is_some_and(|former| next.follows(former));
        self.lock().open.values_mut().filter(former).for_each(Served::end);
        self.served.notify_all();
    }

    /// Ends all: whoever may still come comes again.
    pub fn end_all(&self) {
        self.lock().open.values_mut().for_each(Served::end);
        self.served.notify_all();
    }

    /// Whether something is being done still for one that was ended.
    pub fn are_ended_served(&self) -> bool {
        self.lock().open.values().any(|served| served.fenced)
    }

    /// Ends all; there are no more.
    pub fn close(&self) {
        let mut all = self.lock();
        all.closed = true;
        std::mem::take(&mut all.open).values_mut().for_each(Served::end);
        drop(all);
        self.served.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the list of connections";
