//! Whether a fragment that is to be made has room on this node's disk.

use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::FragmentSpec;

use super::Server;
use crate::fragment::FragmentError;

impl Server {
    /// Looks whether all that it may hold is free now.
    ///
    /// # Errors
    /// It is not, or that cannot be told.
    pub(super) fn check_space(&self, spec: &FragmentSpec) -> Result<(), ApiError> {
        let unknown = |errno: rustix::io::Errno| FragmentError::Io {
            operation: "measure the free space of",
            path: self.root.clone(),
            cause: errno.into(),
        };
        let stat = rustix::fs::statvfs(&self.root).map_err(unknown);
        let stat = stat
            .map_err(|error| self.cannot(ErrorCode::FragmentNotCreated, "create", &spec.instance, &error))?;
        let available = stat.f_bavail * stat.f_frsize;
        if available >= spec.disk_bytes() {
            return Ok(());
        }
        Err(ApiError {
            code: ErrorCode::NoSpace,
            blame: Blame::Site,
            message: format!(
                "node {} has {available} bytes free below {}, the buffer's part there needs {}",
                self.node,
                self.root.display(),
                spec.disk_bytes()
            ),
            advice: "ask for less capacity, free some space, or choose another folder with --dir".into(),
        })
    }
}
