//! Who may do what: the operator everything, a workload manager everything in an owner's name, an owner what is his.

use daemon::error::user;
use server::Caller;
use wire::control::{ApiError, ErrorCode};

/// How callers are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The socket lets in nobody but the user whose service this is, and root.
    Own,
    /// Everybody gets in.
    Cluster {
        /// User ids that may act for any owner.
        wlm: Vec<u32>,
        /// User ids that may do everything.
        admins: Vec<u32>,
    },
}

/// What one caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    Operator,
    /// Everything that jobs need, for any owner.
    Manager,
    /// What belongs to this user.
    Owner(u32),
}

impl Policy {
    /// Of a cluster. Root and the user of this process are operators besides `admins`.
    pub fn cluster(wlm: Vec<u32>, admins: Vec<u32>) -> Policy {
        let own = rustix::process::geteuid().as_raw();
        Policy::Cluster { wlm, admins: admins.into_iter().chain([0, own]).collect() }
    }

    /// The users whose requests wait for nobody else's: jobs wait for them.
    pub(crate) fn services(&self) -> Vec<u32> {
        match self {
            Policy::Own => Vec::new(),
            Policy::Cluster { wlm, admins } => [wlm.as_slice(), admins].concat(),
        }
    }

    /// What `caller` may do.
    pub fn rights(&self, caller: Caller) -> Rights {
        match self {
            Policy::Own => Rights::Operator,
            Policy::Cluster { admins, .. } if admins.contains(&caller.uid) => Rights::Operator,
            Policy::Cluster { wlm, .. } if wlm.contains(&caller.uid) => Rights::Manager,
            Policy::Cluster { .. } => Rights::Owner(caller.uid),
        }
    }
}

impl Rights {
    /// Whether what belongs to `owner` may be seen and touched.
    pub fn cover(self, owner: u32) -> bool {
        match self {
            Rights::Operator | Rights::Manager => true,
            Rights::Owner(uid) => uid == owner,
        }
    }

    /// For what only the operator may do.
    ///
    /// # Errors
    /// `not_allowed`.
    pub fn require_operator(self, what: &str) -> Result<(), ApiError> {
        match self {
            Rights::Operator => Ok(()),
            _ => Err(not_allowed(what, "ask an operator: root, or one of control's admin_users")),
        }
    }

    /// For what users get through their workload manager, which counts what they have.
    ///
    /// # Errors
    /// `not_allowed`.
    pub fn require_manager(self, what: &str) -> Result<(), ApiError> {
        match self {
            Rights::Operator | Rights::Manager => Ok(()),
            Rights::Owner(_) => Err(not_allowed(what, "submit a job with #DW or #BB lines instead")),
        }
    }

    /// For what an owner may ask for himself only.
    ///
    /// # Errors
    /// `not_allowed`.
    pub fn require_owner(self, owner: u32, what: &str) -> Result<(), ApiError> {
        if self.cover(owner) { Ok(()) } else { Err(not_allowed(what, "ask for yourself")) }
    }
}

fn not_allowed(what: &str, advice: &str) -> ApiError {
    user(ErrorCode::NotAllowed, format!("you may not {what}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_managers_and_owners_are_told_apart_by_their_user_ids() {
        let policy = Policy::Cluster { wlm: vec![64030], admins: vec![0, 7] };
        let rights = |uid| policy.rights(Caller { uid, gid: 100, address: None });
        assert_eq!(rights(0), Rights::Operator);
        assert_eq!(rights(7), Rights::Operator);
        assert_eq!(rights(64030), Rights::Manager);
        assert_eq!(rights(2001), Rights::Owner(2001));
        assert!(rights(2001).cover(2001) && !rights(2001).cover(2002));
        assert!(rights(64030).cover(2002));
        assert!(rights(64030).require_operator("drain").is_err());
        assert!(rights(64030).require_manager("set up").is_ok());
        assert!(rights(2001).require_manager("set up").is_err());
        assert_eq!(Policy::Own.rights(Caller { uid: 5, gid: 5, address: None }), Rights::Operator);
    }
}
