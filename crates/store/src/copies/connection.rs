//! A connection of a home shard with the node that keeps the copy of its log: each request answered before the next is
//! read.

use std::io;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use wire::data::member::Member;
use wire::data::{Connection, PAYLOAD_BYTES_MAX, Reply, Request};

use super::{Copies, Draft, Kept, lock};
use crate::errno::errno_of;

/// One such connection.
pub struct Worker {
    copies: Arc<Copies>,
    namespace: u32,
    /// Whose they are.
    home: Member,
    /// The connection's, in `copies`.
    number: u64,
    draft: Option<Draft>,
    buffer: Vec<u8>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let (Some(draft), Ok(kept)) = (&self.draft, self.copies.kept(self.namespace, false)) {
            lock(&kept).abandon(self.number, draft);
        }
        self.copies.disconnected(self.number);
    }
}

impl Worker {
    /// For the connection `number`, which speaks of this namespace.
    pub fn new(copies: Arc<Copies>, namespace: u32, home: Member, number: u64) -> Worker {
        Worker { copies, namespace, home, number, draft: None, buffer: Vec::new() }
    }

    /// Answers requests until the connection ends, and tells why it did. None is answered that `may_answer` forbids.
    pub fn run(&mut self, mut connection: Connection, may_answer: impl Fn() -> io::Result<()>) -> io::Error {
        loop {
            if let Err(end) = self.turn(&mut connection, &may_answer) {
                return end;
            }
        }
    }

    fn turn(
        &mut self,
        connection: &mut Connection,
        may_answer: &impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let frame = connection.receive::<Request>()?;
        self.buffer.resize(frame.payload_len, 0);
        connection.payload(&mut self.buffer)?;
        let reply = self.answer(&frame.message).unwrap_or_else(|error| {
            self.copies.failed(self.namespace, &error);
            Reply::Failed(errno_of(&error).raw_os_error())
        });
        may_answer()?;
        let payload: &[u8] = if reply == Reply::Data { &self.buffer } else { &[] };
        connection.send(frame.id, &reply, payload)
    }

    fn answer(&mut self, request: &Request) -> io::Result<Reply> {
        match *request {
            Request::BeginCopy => {
                let kept = self.copies.kept(self.namespace, true)?;
                let mut kept = lock(&kept);
                self.check_term()?;
                self.draft = Some(kept.begin(self.number)?);
                Ok(Reply::Done)
            }
            Request::AppendCopy { offset, confirmed } => self.write(|kept, draft, bytes| {
                kept.confirm(confirmed);
                kept.append(draft, offset, bytes)
            }),
            Request::SyncCopy { length } => {
                let synced = self.write(|kept, draft, _| kept.sync(draft, length))?;
                self.copies.succeeded(self.namespace);
                Ok(synced)
            }
            Request::FindCopy => self.find(),
            Request::FindMeeting => self.copies.meeting(self.namespace).map(Reply::Meeting),
            Request::ReadCopy { offset, len } => self.read(offset, len as usize),
            _ => Err(Errno::NOTSUP.into()),
        }
    }

    /// Changes the copy that this connection began, if no other has begun one since.
    fn write(
        &mut self,
        change: impl FnOnce(&mut Kept, &mut Draft, &[u8]) -> io::Result<()>,
    ) -> io::Result<Reply> {
        let kept = self.copies.kept(self.namespace, false)?;
        let mut kept = lock(&kept);
        self.check_term()?;
        let draft = self.draft.as_mut().ok_or(Errno::INVAL)?;
        if kept.writer != self.number {
            return Err(Errno::STALE.into());
        }
        change(&mut kept, draft, &self.buffer)?;
        Ok(Reply::Done)
    }

    /// While the copy is held: who took the home's place asks for it only after it was heard of.
    fn check_term(&self) -> io::Result<()> {
        if self.copies.terms().is_current(self.home) { Ok(()) } else { Err(Errno::STALE.into()) }
    }

    fn find(&self) -> io::Result<Reply> {
        let Some(kept) = self.kept()? else { return Ok(Reply::Copy { length: 0, confirmed: 0 }) };
        let kept = lock(&kept);
        let length = kept.find()?.map_or(0, |(_, length)| length);
        Ok(Reply::Copy { length, confirmed: kept.confirmed })
    }

    fn read(&mut self, offset: u64, len: usize) -> io::Result<Reply> {
        let (file, _) = match self.kept()? {
            Some(kept) => lock(&kept).find()?.ok_or(Errno::NOENT)?,
            None => return Err(Errno::NOENT.into()),
        };
        self.buffer = file.read_at(offset, len.min(PAYLOAD_BYTES_MAX))?;
        Ok(Reply::Data)
    }

    /// `None`: no copy was ever begun.
    fn kept(&self) -> io::Result<Option<Arc<Mutex<Kept>>>> {
        disk::if_there(self.copies.kept(self.namespace, false))
    }
}
