//! Sizes that only the fragments know: of files that somebody is writing.

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::InodeReply;
use wire::data::{Attr, Reply, Request, Time};

use super::files::LastChange;
use super::{Client, Contents, Result};

impl Client {
    /// The inode's attributes with the size that its fragments have, if somebody may be writing.
    pub(super) fn with_live_size(&self, inode: InodeReply) -> Result<Attr> {
        let mut attr = inode.attr;
        if inode.live {
            self.measure_into(&mut attr, inode.times)?;
        }
        Ok(attr)
    }

    /// Replaces size, space and time by what the fragments have.
    pub(super) fn measure_into(&self, attr: &mut Attr, times: u64) -> Result<()> {
        let (size, blocks, written) = self.measure(attr.ino)?;
        (attr.size, attr.blocks) = (size, blocks);
        let last = self.files().last_change(attr.ino, times);
        if last != LastChange::Set {
            let times = if last == LastChange::Written { 0 } else { times };
            attr.mtime = attr.changed(times, written);
            attr.ctime = attr.ctime.max(attr.mtime);
        }
        Ok(())
    }

    /// Tells the shard the size of a file whose last writer closed without the shard knowing it. One that has holes
    /// stays one that is measured: its size does not say how much space it takes. Where permissions are checked the
    /// shard asks the fragments by itself, a moment later: whoever has closed the file may not touch its objects any
    /// more.
    pub(super) fn settle(&self, ino: Ino, epoch: u64) -> Result<()> {
        if self.nodes.needs_grants() {
            return Ok(());
        }
        let (size, _, mtime) = self.measure(ino)?;
        if self.next_hole(ino, 0, size)? < size {
            return Ok(());
        }
        self.home(&Request::Settle { ino, size, mtime, epoch }).map(drop)
    }

    fn measure(&self, ino: Ino) -> Result<(u64, u64, Time)> {
        let fragments: Vec<FragmentIndex> = self.layout.fragments_of(ino).collect();
        let replies =
            self.ask_each(fragments.iter().map(|&fragment| (fragment, Request::Measure { ino })))?;
        let mut found = (0, 0, Time::default());
        for (fragment, reply) in fragments.into_iter().zip(replies) {
            let Reply::Object { size, mtime, blocks } = reply else { return Err(Errno::PROTO) };
            found.0 = found.0.max(self.layout.file_size(ino, fragment, size));
            found.1 += blocks;
            found.2 = found.2.max(mtime);
        }
        Ok(found)
    }
}
