//! How the descriptors that this process may have are shared out: RLIMIT_NOFILE is one number for everything.
//!
//! **Invariant:** what is kept for [`RESERVE`] goes neither to objects nor to connections, so that control is heard and
//! logs are written however many files jobs use.

use rustix::process::{Resource, getrlimit};

/// For logs, control, devices, processes that are started, and what is open for a moment only.
const RESERVE: usize = 128;

/// Connections at once, each with a thread and up to 1 MiB of buffer, however many descriptors there are.
const CONNECTIONS_MAX: usize = 1024;

/// Each is a socket, and a second descriptor to end it by.
const DESCRIPTORS_OF_CONNECTION: usize = 2;

/// Connections of whom nothing is known yet, one for so many of the others, and however many those are.
const CONNECTIONS_FOR_STRANGER: usize = 8;
const STRANGERS_MAX: usize = 64;

/// Objects kept open, however many descriptors there are: an open file takes a KiB or two of the kernel.
const OBJECTS_MAX: usize = 32_768;

/// A few objects, however few descriptors there are.
const OBJECTS_MIN: usize = 16;

/// Below this a node works, but opens objects again and again.
const ENOUGH: usize = 16_384;

/// How many of what may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Descriptors in all.
    pub limit: usize,
    /// Objects, of all namespaces together.
    pub objects: usize,
    /// Connections of clients.
    pub connections: usize,
    /// Connections that have proven nothing yet, beside those.
    pub strangers: usize,
}

impl Shares {
    /// By the limit that holds now.
    pub fn now() -> Shares {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Shares::of(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn of(limit: usize) -> Shares {
        let free = limit.saturating_sub(RESERVE);
        // Three quarters, where it is tight: a client without a connection does nothing at all.
        let connections = (free / 4 * 3 / DESCRIPTORS_OF_CONNECTION).clamp(1, CONNECTIONS_MAX);
        let strangers = (connections / CONNECTIONS_FOR_STRANGER).clamp(1, STRANGERS_MAX);
        let objects = free.saturating_sub((connections + strangers) * DESCRIPTORS_OF_CONNECTION);
        Shares { limit, objects: objects.clamp(OBJECTS_MIN, OBJECTS_MAX), connections, strangers }
    }

    /// Says so where they are few.
    pub fn warn(&self) {
        if self.limit < ENOUGH {
            tracing::warn!(
                limit = self.limit,
                objects = self.objects,
                connections = self.connections,
                "this node may have few descriptors (RLIMIT_NOFILE): objects are opened again and again, and clients \
                 may be refused; raise LimitNOFILE= of its service, or `ulimit -Hn` where it is started, to 65536"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_limit_is_there_is_room_for_everything() {
        for limit in [256, 400, 1024, 4096, 65_536, usize::MAX] {
            let shares = Shares::of(limit);
            assert!(
                shares.objects >= OBJECTS_MIN && shares.connections >= 16 && shares.strangers > 4,
                "{shares:?}"
            );
            let taken = shares.objects + (shares.connections + shares.strangers) * DESCRIPTORS_OF_CONNECTION;
            assert!(taken + RESERVE <= limit, "{shares:?}");
        }
        assert_eq!(Shares::of(65_536).connections, CONNECTIONS_MAX);
    }
}
