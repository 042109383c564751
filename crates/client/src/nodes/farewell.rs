//! The end of a session, and what its node hears last.

use std::cell::OnceCell;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::FragmentIndex;
use rustix::io::Errno;
use wire::data::hello::HelloError;
use wire::data::{Connection, Reply, Request};

use super::speech::{receive, takes_part_in_losses};
use super::{Node, Nodes};

/// How long a node may take to hear that the session ends: nobody is held up by one that hangs.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// How long to try a node that is to hear more than that and cannot be reached: it may be starting just now.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// What a node hears last, in order.
pub struct LastWords {
    /// What it would miss: where it cannot take it, it is not told either that the session has ended, and goes by what
    /// it knows of the session itself after the grace period.
    pub losses: Vec<(u64, Request)>,
    /// The end. The last has it on disk.
    pub end: Vec<(u64, Request)>,
}

impl Nodes {
    /// Nobody is asked anything from now on, but by [`Nodes::farewell`]. Whether that is new.
    pub fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::SeqCst)
    }

    /// Whether all changes that were under way have ended; they have a moment.
    pub fn has_settled(&self) -> bool {
        let begun = Instant::now();
        while self.commits.is_changing() && begun.elapsed() < FAREWELL_WITHIN {
            std::thread::sleep(PAUSE / 10);
        }
        !self.commits.is_changing()
    }

    /// Tells the home shard that the session has ended. Best effort, within a moment, or some where there are losses: a
    /// node that does not hear it ends the session after its grace period. `last` is asked for once the home is known.
    pub fn farewell(&self, home: FragmentIndex, last: impl Fn() -> LastWords) {
        let Ok(node) = self.node(home) else { return };
        let (begun, words) = (Instant::now(), OnceCell::new());
        // Also where it is said again: a request has one number.
        let last = || words.get_or_init(&last);
        // Once more where an old connection had broken unseen.
        let mut said = self.say(node, home, last).or_else(|_| self.say(node, home, last));
        while said.is_err() && !self.commits.last_words().is_empty() && begun.elapsed() < LAST_WORDS_WITHIN {
            std::thread::sleep(PAUSE);
            said = self.say(node, home, last);
        }
        if let Err(error) = said {
            let error = &error as &dyn std::error::Error;
            tracing::info!(
                node = ?node.address.node,
                error,
                "cannot tell the storage node that the session ends: it keeps the session for the grace period"
            );
        }
    }

    /// Whether the home is to hear, at the end, that all is confirmed: of who works for a user, and so names no files,
    /// it would have all synced else. What a predecessor wrote is not known.
    pub fn leaves_nothing(&self) -> bool {
        let is_all = || self.commits.all_confirmed(self.commits.moment()).is_some();
        self.credential.needs_grants() && !self.resumed && is_all()
    }

    fn say<'a>(
        &self,
        node: &Node,
        home: FragmentIndex,
        last: impl Fn() -> &'a LastWords,
    ) -> Result<(), HelloError> {
        // One alone: where it is broken, so are the others.
        let idle = node.idle().take_last().map(|link| link.connection).filter(Connection::may_go_on);
        let never_asked = node.life().boot.is_none();
        let mut connection = match idle {
            Some(connection) => connection,
            // It does not know the session.
            None if never_asked && !self.resumed => return Ok(()),
            None => self.dial(node, node.via, home)?.0,
        };
        connection.set_timeout(Some(FAREWELL_WITHIN))?;
        if never_asked {
            // What a predecessor left is to be said, too.
            self.commits.understood(takes_part_in_losses(&mut connection)?);
        }
        let last = last();
        for (id, request) in &last.losses {
            connection.send(*id, request, &[])?;
            taken(receive(&mut connection, *id, &mut [])?.0)?;
        }
        for (place, (id, request)) in last.end.iter().enumerate() {
            connection.send(*id, request, &[])?;
            // The answer matters to nobody, but hanging up before it could lose what comes after it.
            if !last.losses.is_empty() || place + 1 < last.end.len() {
                receive(&mut connection, *id, &mut [])?;
            }
        }
        Ok(())
    }
}

/// Whether a node has taken what was lost. Of who works for a user it takes nothing, and sees to that itself.
fn taken(reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Failed(errno) if errno != Errno::PERM.raw_os_error() => {
            Err(io::Error::from_raw_os_error(errno))
        }
        _ => Ok(()),
    }
}
