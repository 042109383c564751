//! Passes: what a stage-out copies while the job still runs, and what becomes of it when the job takes it back.
//!
//! ```text
//! job runs:   pass, pass, ...   files that are closed, rest, and changed since they were published
//! job's end:  the stage         all that is left, checked against the same journal
//! ```
//!
//! **Invariant:** a pass is never `complete` and fails nothing: the stage at the end compares every file of the source
//! with the journal.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::data::{FileKind, Time};

use crate::context::Context;
use crate::regular;
use crate::tree::Found;

/// How long a file must have rested: who opens, writes and closes in turn is not to be copied each time, and two
/// changes within one tick of an older kernel's clock look like one.
const REST: Duration = Duration::from_secs(1);

/// Whether a pass copies an entry: a file that nobody writes, and that is not published as it is.
pub(crate) fn is_due(context: &Context, source: &Found, target: &std::path::Path) -> bool {
    source.attr.kind == FileKind::Regular
        && has_rested(source.attr.ctime)
        && regular::staged_before(context, source, target).is_none()
        && context.sides.source.is_written(source).is_ok_and(|written| !written)
}

fn has_rested(changed: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::new(u64::try_from(changed.seconds).unwrap_or(0), changed.nanos);
    now.checked_sub(changed).is_some_and(|rested| rested >= REST)
}

/// Takes away what passes have published under names that the source does not have any more, as a stage at the job's
/// end would not have made them. Only after a whole walk: what was not met for another reason stays.
pub(crate) fn remove_orphans(context: &Context) {
    let walked = context.monitor.progress().planned && !context.monitor.is_stopping();
    if !walked || context.shared.pass_failed.load(Ordering::Relaxed) || context.monitor.has_failures() {
        return;
    }
    for (path, done) in context.journal.orphans() {
        let Ok(there) = context.sides.target.find(&path) else { continue };
        if (there.attr.kind, there.attr.size, there.attr.mtime) != (FileKind::Regular, done.size, done.mtime)
        {
            continue;
        }
        match context.sides.target.remove(&path) {
            Ok(()) if context.rules.is_pass => {}
            Ok(()) => context.remark(
                &context.sides.target.show(&path),
                "published while the job ran, and removed as the job has removed or renamed it",
            ),
            Err(errno) => context.remark(
                &context.sides.target.show(&path),
                &format!("published while the job ran, and not in the source any more; it cannot be removed: {errno}"),
            ),
        }
    }
}
