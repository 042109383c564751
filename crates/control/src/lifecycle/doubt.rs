//! What nobody knows of the copies of a part whose node is lost, and what an operator gives up who takes them all the
//! same.
//!
//! **Invariant:** what is not known to be in a copy is never taken for it: it is refused, or lost by name.

use daemon::error::user;
use model::{FragmentIndex, NodeName, Token};
use wire::control::{ApiError, ErrorCode, GiveUp};

use super::target::{self, Described};
use crate::site::{LastWord, Site};
use crate::state::fragments::State;

/// How the fragment `place` is replaced, by the last word of the node that had it.
///
/// # Errors
/// Nobody knows what its copies lack, and nobody accepts that.
pub(super) fn judged(
    site: &impl Site,
    token: &Token,
    (described, place): (&Described, FragmentIndex),
    (node, word): (&NodeName, &LastWord),
    asked: &GiveUp,
) -> Result<State, ApiError> {
    let is_home = !target::homes(site, described, place).is_empty();
    match Doubt::of(word, described.instance.is_mirrored(), is_home) {
        None => Ok(State::Replacing),
        Some(doubt) if asked.accept_loss => Ok(doubt.accept(token, node)),
        Some(doubt) => Err(doubt.refusal()),
    }
}

/// What the copies may lack.
struct Doubt {
    why: String,
    /// Data that was answered.
    data: bool,
    /// Names and attributes that were confirmed.
    names: bool,
}

impl Doubt {
    /// By the last word of its node about a part, of which there is a mirror where it `is_mirrored`, and copies of
    /// metadata logs where it `is_home`. A namespace of which the node said nothing is one that it had not yet: there
    /// it answered nothing alone.
    fn of(word: &LastWord, is_mirrored: bool, is_home: bool) -> Option<Doubt> {
        let Some(said) = &word.served else {
            let why = "the node has said nothing of this part yet, since control was started or the buffer was made, \
                       and so it is not known whether its copies were whole";
            return (is_mirrored || is_home).then(|| Doubt {
                why: why.into(),
                data: is_mirrored,
                names: is_home,
            });
        };
        let node = said.lacks_data.as_ref().or(said.lacks_names.as_ref())?;
        let why = format!("when the node last served this part, node {node} did not have all that it had");
        Some(Doubt { why, data: said.lacks_data.is_some(), names: said.lacks_names.is_some() })
    }

    /// Refuses to take the copies.
    fn refusal(&self) -> ApiError {
        let lost = match (self.data, self.names) {
            (true, false) => "the data of every file that has some in this part, by name",
            (true, true) => {
                "the data of every file that has some in this part, by name, and perhaps names and attributes that an \
                 fsync confirmed"
            }
            (false, _) => {
                "the data that this part had, by name, and perhaps names and attributes that an fsync confirmed"
            }
        };
        let why = &self.why;
        let message = format!(
            "{why}; bring back what it had, as that is nowhere else, or repeat the command with --accept-loss: then \
             {lost} are lost, and the rest goes on"
        );
        user(ErrorCode::MirrorLacks, message, "bring back what it had, or accept the loss")
    }

    /// Takes them: how the part is replaced.
    fn accept(&self, token: &Token, node: &NodeName) -> State {
        let Doubt { why, names, .. } = self;
        tracing::error!(
            ?token,
            ?node,
            why,
            names,
            "the loss of what the copies of a part may lack was accepted"
        );
        if *names { State::AcceptingNames } else { State::ReplacingNames }
    }
}
