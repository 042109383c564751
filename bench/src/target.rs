//! The ratios that we want to reach, and why these.

use crate::work::Case;

/// A buffer on many nodes, beside one on one node. The nodes mount at the same time; here they share two processors.
pub const READY: f64 = 0.2;

/// A job with a buffer, beside the same without: Slurm looks at its jobs about once a second, and has to twice.
pub const JOB: f64 = 0.3;

/// The least ratio to the backing folder that satisfies us.
pub fn ratio(case: Case, nodes: u32) -> f64 {
    match (case, nodes) {
        // The kernel passes the file through: nothing of ours is in the way (measured 1.0; a tenth is noise).
        (Case::SequentialWrite | Case::SequentialRead | Case::RandomRead | Case::RandomWrite, 1) => 0.9,
        // A FUSE server that does no work reaches half of raw for 1 MiB and an eighth for 4 KiB requests.
        (Case::SequentialWrite | Case::SequentialRead, _) => 0.5,
        (Case::RandomRead | Case::RandomWrite, _) => 0.12,
        // Names go through FUSE and one request to a server, where a local file system needs one system call.
        (Case::Create | Case::Stat | Case::Unlink, _) => 0.2,
    }
}
