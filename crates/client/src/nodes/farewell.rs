//! The end of a session, and what its node hears last.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::FragmentIndex;
use wire::data::Request;
use wire::data::hello::HelloError;

use super::speech::receive;
use super::{Node, Nodes};

/// How long a node may take to hear that the session ends: nobody is held up by one that hangs.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// How long one is tried that is to hear more than that, and cannot be reached: it may be starting just now.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

impl Nodes {
    /// Ends the session at a node, which hears `last` first. Whatever is asked of any node from now on fails. Best
    /// effort, within a moment, or some where there are words that it would miss: a node that does not hear it ends the
    /// session after its grace period.
    pub fn farewell(&self, fragment: FragmentIndex, last: &[(u64, Request)], has_words: bool) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(node) = self.node(fragment) else { return };
        let begun = Instant::now();
        // Once more where an old connection had broken unseen.
        let mut said = self.say(node, fragment, last).or_else(|_| self.say(node, fragment, last));
        while said.is_err() && has_words && begun.elapsed() < LAST_WORDS_WITHIN {
            std::thread::sleep(PAUSE);
            said = self.say(node, fragment, last);
        }
        if let Err(error) = said {
            let error = &error as &dyn std::error::Error;
            tracing::info!(
                node = ?node.address.node,
                error,
                "the storage node did not hear that the session ends, and waits for it for the grace period"
            );
        }
    }

    /// Whether the home is to hear, at the end, that all is confirmed: of who works for a user, and so names no files,
    /// it would have all synced else. What a predecessor wrote is not known.
    pub fn leaves_nothing(&self) -> bool {
        let is_all = || self.commits.all_confirmed(self.commits.moment()).is_some();
        self.credential.needs_grants() && !self.resumed && is_all()
    }

    fn say(&self, node: &Node, fragment: FragmentIndex, last: &[(u64, Request)]) -> Result<(), HelloError> {
        // One alone: where it is broken, so are the others.
        let idle = node.idle().take_last().map(|link| link.connection);
        let mut connection = match idle {
            Some(connection) => connection,
            // Nothing was ever asked of it: it does not know the session.
            None if node.life().boot.is_none() && !self.resumed => return Ok(()),
            None => self.dial(node, node.via, fragment)?.0,
        };
        connection.set_timeout(Some(FAREWELL_WITHIN))?;
        for (id, request) in last {
            connection.send(*id, request, &[])?;
            // The answer matters to nobody, but hanging up before it could lose the request.
            receive(&mut connection, *id, &mut [])?;
        }
        Ok(())
    }
}
