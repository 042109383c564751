//! Objects that another node keeps as well: each change and each sync is made there, too.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use model::Ino;
use wire::data::Request;

use super::Objects;
use crate::integrity::other::OtherCopy;
use crate::mirror::Mirror;
use crate::mirror::ranges::Held;

impl Objects {
    /// The same, kept by `mirror` as well.
    pub fn with_mirror(self, mirror: Option<Arc<Mirror>>) -> Objects {
        let other = mirror.clone().map(|mirror| mirror as Arc<dyn OtherCopy>);
        Objects { mirror, other, ..self }
    }

    /// Their mirror.
    pub fn mirror(&self) -> Option<&Arc<Mirror>> {
        self.mirror.as_ref()
    }

    /// Lets nobody else change any of the range, where two copies must see changes in one order.
    pub(super) fn hold(&self, ino: Ino, range: Range<u64>) -> Option<Held<'_>> {
        self.mirror.as_ref().map(|mirror| mirror.hold(ino, range))
    }

    /// Makes a change `here`, and the same by `request` on the mirror.
    pub(super) fn on_both<T>(
        &self,
        ino: Ino,
        request: (&Request, &[u8]),
        here: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.mirror {
            Some(mirror) => mirror.change(ino, request, here),
            None => here(),
        }
    }

    /// Syncs objects `here`, and by the same request on the mirror.
    pub(super) fn sync_on_both<T>(
        &self,
        inos: &[Ino],
        here: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.mirror {
            Some(mirror) => mirror.sync(inos, &Request::SyncMany { inos: inos.to_vec() }, here),
            None => here(),
        }
    }
}
