//! How a fragment of an instance introduces itself to the node of another: by a session that says who speaks, and in
//! which term. No client's: those are drawn.
//!
//! ```text
//! session := fragment:u32le term:u32le role[8]
//! ```
//!
//! **Invariant:** who takes a fragment's place speaks in a higher term than whoever had it before.

use model::{FragmentIndex, SessionId};

/// What a fragment's connection to another is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The copies of its metadata logs, which the next fragment's node keeps. Such a connection is served also where
    /// the fragment of that node is not.
    Copying,
    /// The mirror of its objects, which the next fragment's node keeps: what is asked is meant of these.
    Mirroring,
    /// It is home to metadata, and has the other resize and remove its objects.
    Following,
    /// It only asks, and changes nothing: for what is damaged in the mirror of the other that it keeps, or for a list
    /// of objects.
    Repairing,
}

/// A fragment that speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What about.
    pub role: Role,
    /// Its number in the instance.
    pub fragment: FragmentIndex,
    /// How often another node had taken its place when this one was made.
    pub term: u32,
}

const ROLES: [(Role, u8); 4] =
    [(Role::Copying, 0xfe), (Role::Mirroring, 0xfd), (Role::Following, 0xff), (Role::Repairing, 0xfc)];

impl Member {
    /// Its session: the same in each of its node's lives.
    pub fn session(self) -> SessionId {
        let (_, byte) = ROLES.into_iter().find(|(role, _)| *role == self.role).expect("all roles are listed");
        let mut session = [byte; 16];
        session[..4].copy_from_slice(&self.fragment.to_le_bytes());
        session[4..8].copy_from_slice(&self.term.to_le_bytes());
        SessionId(session)
    }

    /// Whose session it is; `None`: a client's.
    pub fn of(SessionId(session): SessionId) -> Option<Member> {
        let number = |at: usize| u32::from_le_bytes(session[at..at + 4].try_into().expect("4 bytes"));
        let (role, _) = ROLES.into_iter().find(|(_, byte)| session[8..] == [*byte; 8])?;
        Some(Member { role, fragment: FragmentIndex(number(0)), term: number(4) })
    }

    /// Whether the other speaks for the same fragment, and was replaced by then.
    pub fn follows(self, other: Member) -> bool {
        self.fragment == other.fragment && self.term > other.term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_says_who_speaks_and_no_clients_does() {
        for (role, _) in ROLES {
            let member = Member { role, fragment: FragmentIndex(7), term: 2 };
            assert_eq!(Member::of(member.session()), Some(member));
            assert!(member.follows(Member { term: 1, ..member }) && !member.follows(member));
            assert!(!member.follows(Member { fragment: FragmentIndex(6), term: 1, ..member }));
        }
        assert_eq!(Member::of(SessionId([3; 16])), None);
    }
}
