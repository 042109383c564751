//! What a request says beside what is asked: of which inode, by whom, and under which number.

use std::sync::Arc;

use super::{Operation, Request};
use crate::abi::{InHeader, UNIQUE_RESEND};
use crate::interrupt::{Cancel, Interrupts};

impl<'a> Request<'a> {
    pub(crate) fn new(
        header: InHeader,
        operation: Operation<'a>,
        interrupts: &'a Arc<Interrupts>,
    ) -> Request<'a> {
        Request { header, operation, interrupts }
    }

    /// The inode that it is about; a folder where a name comes along.
    pub fn ino(&self) -> u64 {
        self.header.nodeid
    }

    /// Its number, which grows; the same when it is sent again to a successor.
    pub fn unique(&self) -> u64 {
        self.header.unique & !UNIQUE_RESEND
    }

    /// Whether a former process of this mount may have read it, and even done it.
    pub fn is_resent(&self) -> bool {
        self.header.unique & UNIQUE_RESEND != 0
    }

    /// Who asks.
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// Their group.
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// Their process; 0 where it is of another namespace of processes.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// From here on the kernel can interrupt it, until the [`Cancel`] is dropped.
    pub fn cancellable(&self) -> Cancel {
        self.interrupts.register(self.header.unique)
    }

    /// The same, asked by another user with this group.
    #[must_use]
    pub fn by(&self, uid: u32, gid: u32) -> Request<'a> {
        Request { header: InHeader { uid, gid, ..self.header }, ..*self }
    }
}
