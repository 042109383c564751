//! Whether the PFS answers on this host, when a mover on another gives no sign.

use std::path::Path;

use model::phase::Direction;

use crate::context::Context;
use crate::part;
use crate::tree::Found;

/// Bytes that are read.
const READ_BYTES: usize = 4096;

/// Does there what who stages `source` as `target` does, past this host's caches; comes back when the PFS does. What
/// comes of it is no matter.
pub(super) fn pfs(context: &Context, source: &Found, target: &Path) {
    match context.sides.direction {
        Direction::In => {
            let Ok(file) = context.sides.source.open(source) else { return };
            let _ = file.forget_cached().and_then(|()| file.read_at(&mut [0; READ_BYTES], 0));
        }
        Direction::Out => {
            let create = |place: &Path| context.sides.target.create(place);
            let made = part::make(context, (context.workplace(target), target), "make file", create);
            // Closed before it is removed.
            let Ok(((_, file), _part)) = made else { return };
            let _ = file.write_at(&[0], 0).and_then(|()| file.sync());
            drop(file);
        }
    }
}
