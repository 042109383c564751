//! Listing directories.

use client::{Attr, ROOT, Result};
use fuse::abi::{OpenOut, ReadIn};
use fuse::listing::Listing;
use fuse::reply::Reply;
use model::Ino;

use super::{Kernel, attributes};

/// Cookies of `.` and `..`; those of the file system follow.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

impl Kernel {
    pub(super) fn open_directory(&self, reply: Reply) {
        reply.opened(&OpenOut { fh: self.namespace.client().handle(), ..OpenOut::default() });
    }

    pub(super) fn read_directory(&self, ino: Ino, read: &ReadIn, reply: Reply) {
        let mut listing = Listing::new(read.size);
        let listed = self.list(ino, read.offset, |cookie, name, attr, _| {
            listing.add(attr.ino.into(), cookie, name, attributes::mode_of(attr))
        });
        answer(listed, &listing, reply);
    }

    pub(super) fn read_directory_plus(&self, ino: Ino, read: &ReadIn, reply: Reply) {
        let cache_for = self.cache_for();
        let mut listing = Listing::new(read.size);
        let listed = self.list(ino, read.offset, |cookie, name, attr, is_known| {
            if !is_known {
                // To tell names, nobody waits for the nodes that know a file's size.
                return listing.add_without_attributes(
                    attr.ino.into(),
                    cookie,
                    name,
                    attributes::mode_of(attr),
                );
            }
            listing.add_with_attributes(&attributes::entry_out(attr, cache_for), cookie, name)
        });
        answer(listed, &listing, reply);
    }

    /// Gives entries after `offset` to `add`, with whether their attributes are known, until that says that no more
    /// fit.
    fn list(
        &self,
        ino: Ino,
        offset: u64,
        mut add: impl FnMut(u64, &[u8], &Attr, bool) -> bool,
    ) -> Result<()> {
        let dots = [(DOT, b".".as_slice()), (DOT_DOT, b"..")];
        if offset < DOT_DOT {
            let mut attr = self.namespace.getattr(ino)?;
            // Removed, but open: there is nothing in it, as in any local file system.
            if attr.nlink == 0 {
                return Ok(());
            }
            for (cookie, name) in dots {
                if cookie == DOT_DOT {
                    attr = self.namespace.lookup(ino, b"..").or_else(|_| self.namespace.getattr(ROOT))?;
                }
                if cookie > offset && !add(cookie, name, &attr, true) {
                    return Ok(());
                }
            }
        }
        let mut cookie = offset.saturating_sub(DOT_DOT);
        loop {
            let page = self.namespace.readdir(ino, cookie)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            cookie = last.cookie;
            for (entry, is_known) in &page {
                if !add(entry.cookie + DOT_DOT, &entry.name, &entry.attr, *is_known) {
                    return Ok(());
                }
            }
        }
    }
}

fn answer(listed: Result<()>, listing: &Listing, reply: Reply) {
    match listed {
        Ok(()) => reply.bytes(listing.as_bytes()),
        Err(errno) => reply.error(errno),
    }
}
