//! What nodes advise about a buffer, made into commands that can be copied.
//!
//! **Invariant:** no person reads [`TOKEN`] in a command where anybody on the way knew the buffer's token.

use model::Token;

use crate::node::PartTrouble;

/// Stands for the buffer's token in what a node advises: it knows buffers by their instances, and control fills it in.
pub const TOKEN: &str = "{token}";

/// Where control knows an earlier key of a buffer than its nodes.
pub const NEWER_DATABASE: &str = "stop control and restore the newest copy of control.db, from after the change; \
     without such a copy the buffer cannot be used any more";

/// What a node advises about the buffer `token`.
pub fn of_buffer(advice: &str, token: &Token) -> String {
    advice.replace(TOKEN, token.as_str())
}

impl PartTrouble {
    /// The same of a part of the buffer `token`.
    #[must_use]
    pub fn of_buffer(self, token: &Token) -> PartTrouble {
        PartTrouble { advice: of_buffer(&self.advice, token), ..self }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::node::IntegrityStatus;
    use model::{FragmentIndex, NodeName};

    #[test]
    fn what_is_advised_about_damage_names_the_buffer() {
        let damaged = IntegrityStatus { damaged: 1, ..IntegrityStatus::default() };
        let lost = IntegrityStatus { seals_lost: Some("a bad mark".into()), ..IntegrityStatus::default() };
        for (status, command) in [(damaged, "`forebay scrub 17`"), (lost, "`forebay fsck 17 --repair`")] {
            let (why, advice) = status.told().unwrap();
            let trouble = PartTrouble { part: FragmentIndex(0), node: NodeName::literal("n1"), why, advice }
                .of_buffer(&Token::literal("17"));
            assert!(trouble.advice.contains(command) && !trouble.advice.contains(TOKEN), "{trouble:?}");
        }
    }
}
