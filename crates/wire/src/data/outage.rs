//! How long a node has been away, by one clock for all who need it.
//!
//! Whoever waits for a node waits for the rest of its grace period, and who comes later does not wait at all: what
//! needs the node fails at once, until it answers again, which one thread finds out for all.
//!
//! **Invariant:** a node is given up once and found to be back once, however many wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::hello::HelloError;

/// How soon to try a node again that was given up.
const PAUSE: Duration = Duration::from_millis(500);

/// What one client knows of the absence of one node.
#[derive(Debug)]
pub struct Outage {
    grace: Duration,
    /// When it began; `None` while the node answers.
    since: Mutex<Option<Instant>>,
    given_up: AtomicBool,
    /// There is one: whoever is answered need not share the clock's lock to find that there is none.
    is_on: AtomicBool,
}

/// What follows from an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again; nobody has noticed before.
    Lost,
    /// Try again.
    Wait,
    /// The grace period is over; nobody has noticed before, so whoever is told this starts [`probe`].
    GiveUp,
    /// The node was given up before.
    GivenUp,
}

impl Outage {
    /// Of a node that answers as far as is known, with this grace period.
    pub fn none(grace: Duration) -> Arc<Outage> {
        let (given_up, is_on) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Outage { grace, since: Mutex::new(None), given_up, is_on })
    }

    /// Before the node is asked.
    ///
    /// # Errors
    /// EIO while it is given up.
    pub fn admit(&self) -> Result<(), Errno> {
        if self.given_up.load(Ordering::Acquire) { Err(Errno::IO) } else { Ok(()) }
    }

    /// How long the node has been away.
    pub fn lasts(&self) -> Duration {
        self.since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The node did not answer.
    pub fn failed(&self) -> Verdict {
        let mut since = self.since();
        if self.admit().is_err() {
            return Verdict::GivenUp;
        }
        match *since {
            None => {
                *since = Some(Instant::now());
                self.is_on.store(true, Ordering::Release);
                Verdict::Lost
            }
            Some(since) if since.elapsed() <= self.grace => Verdict::Wait,
            Some(_) => {
                self.given_up.store(true, Ordering::Release);
                Verdict::GiveUp
            }
        }
    }

    /// The node answered, whoever asked. Tells the first who says so how long it had been away.
    pub fn answered(&self) -> Option<Duration> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let mut since = self.since();
        self.is_on.store(false, Ordering::Release);
        self.given_up.store(false, Ordering::Release);
        since.take().map(|since| since.elapsed())
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().expect("no thread panics while it looks at a clock")
    }
}

/// Tries to reach a node that was given up, in a thread of its own, until that answers or nobody needs it any more.
/// `back` is then told how long it was away. A refusal is an answer: whoever asks next is told of it.
pub fn probe(
    outage: &Arc<Outage>,
    reach: impl Fn() -> Result<(), HelloError> + Send + 'static,
    back: impl FnOnce(Duration) + Send + 'static,
) {
    let needed = Arc::downgrade(outage);
    let run = move || {
        loop {
            std::thread::sleep(PAUSE);
            if needed.strong_count() == 0 {
                return;
            }
            if reach().err().is_none_or(|error| error.is_final()) {
                break;
            }
        }
        if let Some(away) = needed.upgrade().and_then(|outage| outage.answered()) {
            back(away);
        }
    };
    if std::thread::Builder::new().name("probe".into()).spawn(run).is_err() {
        // Nobody would find out: whoever needs the node waits for it once more.
        outage.answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_share_one_clock_and_who_comes_later_does_not_wait() {
        let outage = Outage::none(Duration::ZERO);
        assert_eq!(outage.admit(), Ok(()));
        assert_eq!(outage.failed(), Verdict::Lost);
        assert_eq!(outage.failed(), Verdict::GiveUp);
        assert_eq!(outage.failed(), Verdict::GivenUp);
        assert_eq!(outage.admit(), Err(Errno::IO));
        assert!(outage.answered().is_some() && outage.answered().is_none(), "it is told once");
        assert_eq!((outage.admit(), outage.failed()), (Ok(()), Verdict::Lost));
    }

    #[test]
    fn a_node_that_was_given_up_is_tried_until_it_answers() {
        let outage = Outage::none(Duration::ZERO);
        assert_eq!([outage.failed(), outage.failed()], [Verdict::Lost, Verdict::GiveUp]);
        let (left, done) = (Mutex::new(2), std::sync::mpsc::channel());
        let reach = move || {
            let mut left = left.lock().unwrap();
            *left -= 1;
            if *left == 0 { Ok(()) } else { Err(std::io::Error::from(Errno::CONNREFUSED).into()) }
        };
        probe(&outage, reach, move |away| done.0.send(away).unwrap());
        done.1.recv().unwrap();
        assert_eq!(outage.admit(), Ok(()));
    }
}
