//! Who must know before a fragment confirms a change alone, without the node that keeps the copy: control, where it may
//! have another node take the fragment's place with what that copy has. It asks every second how copies stand
//! ([`wire::node::FragmentStatus::doubts`]), and confirms what it has heard.
//!
//! ```text
//! none, or at a start ---> open, under a number that the status tells ---> known: control has confirmed that number.
//!   ^                                    |                                   |   Changes may be confirmed alone from
//!   |                                    |                                   |   here on
//!   +------------------------------------+--- the copy has everything -------+
//! ```
//!
//! At a start nothing is known of the copy. Control hears of that only where somebody cannot wait for the copy, or
//! where it does not count as one any more: until then nothing is confirmed that it lacks, and what control heard in
//! the life before still holds.
//!
//! A copy that may lack more than control knows of is another doubt: open again, under another number.
//!
//! **Invariant:** nothing is confirmed alone before the doubt is known, where control is to know of it.

use std::time::{Duration, SystemTime};

/// How long a sync waits for a node that tells nothing, before it goes on without that. So does a change of an object
/// for its mirror.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(5);

/// The same for a node that is still taking the log.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(15);

/// Whether a copy may lack something, and who knows.
#[derive(Debug)]
pub struct Doubt {
    /// Control is to know.
    witnessed: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    Start,
    Open(u64),
    Known,
}

impl Doubt {
    /// At a start, nothing is known of the copy.
    pub fn new(witnessed: bool) -> Doubt {
        Doubt { witnessed, state: State::Start }
    }

    /// The copy may lack something from now on.
    pub fn begin(&mut self) {
        if matches!(self.state, State::None | State::Start) {
            self.state = State::Open(number());
        }
    }

    /// It may lack more than control knows of.
    pub fn renew(&mut self) {
        self.state = State::Open(number());
    }

    /// The copy has everything.
    pub fn end(&mut self) {
        self.state = State::None;
    }

    /// Control knows of these. Returns whether this is one of them.
    pub fn hear(&mut self, numbers: &[u64]) -> bool {
        let is_heard = matches!(self.state, State::Open(number) if numbers.contains(&number));
        if is_heard {
            self.state = State::Known;
        }
        is_heard
    }

    /// Whether there is any.
    pub fn exists(&self) -> bool {
        self.state != State::None
    }

    /// Whether changes may be confirmed without the copy, as somebody is about to do.
    pub fn permits(&mut self) -> bool {
        if self.state == State::Start {
            self.begin();
        }
        !self.witnessed || self.state == State::Known
    }

    /// What control is still to hear of.
    pub fn untold(&self) -> Option<u64> {
        match self.state {
            State::Open(number) if self.witnessed => Some(number),
            _ => None,
        }
    }
}

/// No former doubt had it, nor any of a former life of this process: what is confirmed of those says nothing of this
/// one.
fn number() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_confirmed_alone_only_when_control_knows_of_this_doubt() {
        let mut doubt = Doubt::new(true);
        assert!(doubt.exists() && doubt.untold().is_none(), "nothing is known at a start, and nobody asks");
        assert!(!doubt.permits());
        let first = doubt.untold().expect("somebody asks");
        doubt.end();
        assert!(!doubt.exists() && !doubt.permits() && !doubt.hear(&[first]));
        doubt.begin();
        assert!(!doubt.hear(&[first]) && !doubt.permits(), "that was another");
        let second = doubt.untold().expect("control does not know yet");
        assert!(doubt.hear(&[first, second]) && doubt.permits() && doubt.exists());
        doubt.begin();
        assert_eq!(doubt.untold(), None, "it is the same that control knows of");
        doubt.end();
        doubt.begin();
        assert!(!doubt.permits());
    }

    #[test]
    fn where_nobody_replaces_nodes_nobody_is_waited_for() {
        assert!(Doubt::new(false).permits() && Doubt::new(false).untold().is_none());
    }
}
