//! What is wrong with one part of a buffer, for people.

use model::{FragmentIndex, NodeName};
use serde::{Deserialize, Serialize};

/// A part of a buffer that is not served, or that nobody could look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTrouble {
    /// Which part: the fragment's number.
    pub part: FragmentIndex,
    /// The node that has it.
    pub node: NodeName,
    /// Why.
    pub why: String,
    /// What to do next.
    pub advice: String,
}
