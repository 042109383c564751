//! Passes: what a stage-out copies while the job still runs. What becomes of it when the job takes it back is in
//! `orphans`.
//!
//! ```text
//! job runs:   pass, pass, ...   files that are closed, rest, and changed since they were published
//! job's end:  the stage         all that is left, checked against the same journal
//! ```
//!
//! **Invariant:** a pass is never `complete` and fails nothing: the stage at the end compares every file of the source
//! with the journal.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use wire::data::{FileKind, Time};

use crate::before;
use crate::context::Context;
use crate::journal::Inode;
use crate::tree::Found;

/// How long a file must have rested: who opens, writes and closes in turn is not to be copied each time, and two
/// changes within one tick of an older kernel's clock look like one.
const REST: Duration = Duration::from_secs(1);

/// Whether a pass copies an entry: a file that nobody writes, that is not published as it is, and whose name is free.
pub(crate) fn is_due(context: &Context, source: &Found, target: &Path) -> bool {
    source.attr.kind == FileKind::Regular
        && has_rested(source.attr.ctime)
        && before::staged_before(context, source, target).is_none()
        && is_free(context, target)
        && context.sides.source.is_written(source).is_ok_and(|written| !written)
}

/// Whether nobody but earlier passes has put anything under the name. What others have there is the end's to replace:
/// should the job take its file back before, theirs would be gone.
fn is_free(context: &Context, target: &Path) -> bool {
    match context.sides.target.find(target) {
        Ok(there) => context.journal.published(target) == Some(Inode::of(&there)),
        Err(errno) => errno == Errno::NOENT,
    }
}

fn has_rested(changed: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::new(u64::try_from(changed.seconds).unwrap_or(0), changed.nanos);
    now.checked_sub(changed).is_some_and(|rested| rested >= REST)
}
