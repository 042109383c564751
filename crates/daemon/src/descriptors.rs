//! How many files a service may have open at once: as many as the system lets it.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit to `wanted`, or as far as the system allows; warns where that is less.
pub fn raise(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(wanted).min(wanted);
    limit.current = Some(allowed.max(limit.current.unwrap_or(wanted)));
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, wanted, "cannot raise the limit of open files (RLIMIT_NOFILE)");
    } else if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "few files can be open at once (RLIMIT_NOFILE): raise LimitNOFILE= of the service, or `ulimit -Hn` where \
             it is started"
        );
    }
}
