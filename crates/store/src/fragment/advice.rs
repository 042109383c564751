//! What a person can do about a fragment that is not served. What is wrong with it is [`FragmentError`]'s to say.
//!
//! **Invariant:** nothing that is advised here loses what is on disk, but for giving the buffer up, which says so.

use std::borrow::Cow;

use disk::format::{UPGRADE, is_newer};
use wire::advice::TOKEN;

use super::FragmentError;
use crate::image::VolumeError;
use crate::mirror::restore_error::RestoreError;
use crate::shard::log::LogError;
use crate::shard::log::restore::is_lost;

/// Where the file system refuses.
pub const LOOK_AT_THE_DISK: &str = "look at the file's permissions, the room on its disk and the kernel's log; mend \
     that, then start the node again";

/// Where a file system failed under a part that is served.
pub(super) const MOUNT_IT_AGAIN: &str = "see the kernel's log for what its disk did; stop this node's service, mount \
     the file system again and start the service; where the disk is lost and the buffer has other nodes, an operator \
     gives this node up as lost";

/// Where the disk does not give a metadata log that is there.
const UNREADABLE_LOG: &str = "look into the kernel's log and at the disk; where the file stays unreadable, and the \
     buffer has several nodes, move it aside and start the node again: its copy takes its place";

/// Where programs keep a file system that has failed.
const LET_GO: &str = "unmount the buffer, or end the job that uses it; then start the node again";

/// Where control is to say what the present key is.
const FORMER_KEY: &str =
    "see that control runs and that this node reaches it: it brings the present key by itself";

fn bring_back() -> String {
    format!(
        "bring the file back as it was and start the node again; where nobody has it, give the buffer up with `forebay \
         rm {TOKEN}`"
    )
}

fn alone(note: &dyn std::fmt::Display) -> String {
    format!(
        "where the folder was put together of several copies, put the newest back; where it is the newest, move {note} \
         aside; then start the node again"
    )
}

fn upgrade() -> Cow<'static, str> {
    format!("{UPGRADE}, and start the node again").into()
}

impl FragmentError {
    /// What to do next.
    pub fn advice(&self) -> Cow<'static, str> {
        match self {
            FragmentError::Copy { node, asked_again: true, .. } => format!(
                "start node {node} or repair the network to it: its copy takes the log's place as soon as it answers"
            )
            .into(),
            FragmentError::Restore(RestoreError::Away { node, .. } | RestoreError::HomeAway { node, .. }) => {
                format!("start node {node} or repair the network to it: it fills this part when it answers").into()
            }
            FragmentError::Restore(RestoreError::Lacking { .. }) => format!(
                "where nobody has the lost node's flash, give the buffer up with `forebay rm {TOKEN}`: both copies of \
                 this part are gone"
            )
            .into(),
            FragmentError::Restore(RestoreError::Older { .. }) => {
                "put the newer folder of the buffer back where it is kept and start the node again; where nobody has \
                 it, an operator gives this node up as lost, and another one takes what the mirror has"
                    .into()
            }
            FragmentError::FormerKey { .. } => FORMER_KEY.into(),
            FragmentError::Restore(RestoreError::Alone { note, .. }) => alone(&note.display()).into(),
            FragmentError::Newer(_) | FragmentError::Log(LogError::Newer { .. }) => upgrade(),
            FragmentError::Io { cause, .. } if is_newer(cause) => upgrade(),
            FragmentError::Log(lost @ LogError::Io { .. }) if !is_lost(lost) => UNREADABLE_LOG.into(),
            FragmentError::Copy { .. }
            | FragmentError::Log(_)
            | FragmentError::Key
            | FragmentError::Specification { .. }
            | FragmentError::NoSpecification { .. } => bring_back().into(),
            FragmentError::Io { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => {
                bring_back().into()
            }
            FragmentError::Volume(VolumeError::ShutDown { .. }) => LET_GO.into(),
            FragmentError::Restore(RestoreError::Here { .. } | RestoreError::Itself { .. })
            | FragmentError::Io { .. }
            | FragmentError::Volume(_) => LOOK_AT_THE_DISK.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use disk::format::FormatError;
    use model::NodeName;

    use super::*;

    #[test]
    fn what_to_do_about_a_lost_log_depends_on_whether_its_copy_may_still_come() {
        let lost = || LogError::Damaged { path: PathBuf::from("meta.log"), offset: 9 };
        let copy = |asked_again| {
            let (node, why) = (NodeName::literal("n1"), "connection refused".to_owned());
            FragmentError::Copy { lost: lost(), node, why, asked_again }
        };
        assert!(copy(true).advice().contains("start node n1"), "{}", copy(true).advice());
        assert_eq!(copy(false).advice(), bring_back());
        assert_eq!(FragmentError::Log(lost()).advice(), bring_back());
    }

    #[test]
    fn for_whatever_a_newer_forebay_wrote_that_is_to_be_installed_and_nothing_given_up() {
        let path = || PathBuf::from("meta.log");
        let io = FormatError::Newer { found: 2, known: 1 }.into();
        for newer in [
            FragmentError::Newer("spec.json: ...".into()),
            FragmentError::Log(LogError::Newer { path: path(), why: "...".into() }),
            FragmentError::Io { operation: "read", path: path(), cause: io },
        ] {
            let advice = newer.advice();
            assert!(
                advice.starts_with("install the Forebay that wrote it") && !advice.contains("rm"),
                "{advice}"
            );
        }
    }

    #[test]
    fn a_disk_that_refuses_is_looked_at_and_a_log_that_it_does_not_give_moved_aside() {
        let eio = || io::Error::from_raw_os_error(5);
        let path = || PathBuf::from("spec.json");
        let unread = FragmentError::Io { operation: "read", path: path(), cause: eio() };
        assert_eq!(unread.advice(), LOOK_AT_THE_DISK);
        let log = FragmentError::Log(LogError::Io { operation: "read", path: path(), cause: eio() });
        assert!(log.advice().contains("move it aside"), "{}", log.advice());
    }
}
