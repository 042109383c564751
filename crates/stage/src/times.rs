//! Times that the target does not hold as the source has them. They are told once for a stage, with how many entries
//! have others; no entry fails for it.

use wire::control::Side;
use wire::data::Time;

use crate::context::Context;
use crate::differing::First;
use crate::metadata::leave_out;
use crate::tree::Found;

/// Looks whether an entry of the target has the time of change that it was given.
pub(crate) fn compare(context: &Context, there: &Found, wanted: Time) {
    let found = there.attr.mtime;
    if found == wanted {
        return;
    }
    if context.shared.left_out.is_some() {
        // Fractions of a second are cut by many.
        if found.seconds != wanted.seconds {
            let (found, wanted) = (found.seconds, wanted.seconds);
            let text = format!(
                "the time of change {wanted} (seconds since 1970) cannot be kept: the target has {found} in its place"
            );
            leave_out(context, &there.path, text);
        }
        return;
    }
    let mut differing = context.shared.times.lock().expect("no thread panics with the lock");
    differing.entries += 1;
    let shown = || context.sides.target.show(&there.path);
    differing.first.get_or_insert_with(|| First { shown: shown(), wanted, found });
}

/// Remarks what was found, if anything.
pub(crate) fn tell(context: &Context) {
    let differing =
        std::mem::take(&mut *context.shared.times.lock().expect("no thread panics with the lock"));
    let Some(First { shown, wanted, found }) = differing.first else { return };
    let entries = differing.entries;
    let target = match context.sides.target.side() {
        Side::Pfs => "the PFS",
        Side::Buffer => "the buffer",
    };
    let text = if found.seconds != wanted.seconds {
        let (found, wanted) = (found.seconds, wanted.seconds);
        format!(
            "{target} cannot hold the time of change of {entries} entries and keeps another; of this one {found} in \
             place of {wanted} (seconds since 1970)"
        )
    } else if found.nanos == 0 {
        format!("{target} keeps times in whole seconds: those of {entries} entries are cut, as of this one")
    } else {
        format!(
            "{target} keeps times to less than the nanosecond: those of {entries} entries are cut, as of this one"
        )
    };
    context.remark(&shown, &text);
}
