//! Serving a mount: agreeing with the kernel, then answering its requests on several threads.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, InitIn, InitOut, MAJOR, MINOR, MINOR_MIN, WriteIn, capability};
use crate::device::Device;
use crate::interrupt::Interrupts;
use crate::notify::Notifier;
use crate::reply::Reply;
use crate::request::{Message, Request, parse, split};

/// The smallest page there is. Where pages are larger, `max_write` and the mount's `max_read` bound requests.
const PAGE_BYTES: u32 = 4096;

/// The kernel reads no request into less.
const READ_BYTES_MIN: usize = 8192;

/// How many requests that nobody waits for (readahead, asynchronous direct I/O, pages that are written back) the kernel
/// sends before it holds back. A handler that answers one only after others were must keep fewer of them waiting.
pub const BACKGROUND_MAX: u16 = 1024;

/// How many of them are under way when the kernel stops to read ahead. As many as there are threads in a session three
/// times over, so that none idles.
const CONGESTION: u16 = 24;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one, now or later. Several threads call it at once; what blocks here for long holds one of them back.
    fn handle(&self, request: &Request<'_>, reply: Reply);
}

/// What to ask of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bits of [`capability`].
    pub capabilities: u64,
    /// Bytes in one write, and pages in any request.
    pub max_write: u32,
    /// Bytes that the kernel may read ahead.
    pub max_readahead: u32,
}

/// What was agreed. A successor needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// The kernel's version of the protocol: 7 and this.
    pub minor: u32,
    /// Bits of [`capability`] that were asked for and that the kernel has.
    pub capabilities: u64,
    /// Bytes in one write.
    pub max_write: u32,
}

impl Negotiated {
    /// Whether the kernel has this bit of [`capability`] and it was asked for.
    pub fn has(&self, capability: u64) -> bool {
        self.capabilities & capability != 0
    }
}

/// Answers the kernel's first request on a new mount.
///
/// # Errors
/// What the device says; `Unsupported` for a kernel that is too old.
pub fn negotiate(device: &Device, wanted: &Wanted) -> io::Result<Negotiated> {
    let mut buffer = vec![0; buffer_bytes(wanted.max_write)];
    loop {
        let Some((header, body)) = next(device, &mut buffer)? else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the mount ended before it began"));
        };
        let reply = Reply::new(device, header.unique);
        let Ok(Message::Init(body)) = parse(header.opcode, body, 0) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's first request is not INIT"));
        };
        let (init, rest) = InitIn::read_from_prefix(body).map_err(|_| io::ErrorKind::InvalidData)?;
        if init.major > MAJOR {
            // It asks again, with our version.
            reply.bytes(InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() }.as_bytes());
            continue;
        }
        if init.major < MAJOR || init.minor < MINOR_MIN {
            reply.error(Errno::PROTO);
            let message = format!("the kernel's FUSE is {}.{}, too old", init.major, init.minor);
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let (agreed, answer) = agree(&init, rest, wanted);
        reply.bytes(answer.as_bytes());
        return Ok(agreed);
    }
}

fn agree(init: &InitIn, rest: &[u8], wanted: &Wanted) -> (Negotiated, InitOut) {
    let mut offered = u64::from(init.flags);
    if offered & capability::INIT_EXT != 0
        && let Ok((flags2, _)) = u32::read_from_prefix(rest)
    {
        offered |= u64::from(flags2) << 32;
    }
    let capabilities = offered & (wanted.capabilities | capability::INIT_EXT);
    let low = u32::try_from(capabilities & u64::from(u32::MAX)).expect("masked to 32 bits");
    let high = u32::try_from(capabilities >> 32).expect("shifted to 32 bits");
    let answer = InitOut {
        major: MAJOR,
        minor: MINOR,
        max_readahead: wanted.max_readahead.min(init.max_readahead),
        flags: low,
        flags2: high,
        max_background: BACKGROUND_MAX,
        congestion_threshold: CONGESTION,
        max_write: wanted.max_write,
        time_gran: 1,
        max_pages: u16::try_from(wanted.max_write.div_ceil(PAGE_BYTES)).unwrap_or(u16::MAX),
        // The one file system that may be below is that of the backing files.
        max_stack_depth: u32::from(capabilities & capability::PASSTHROUGH != 0),
        ..InitOut::default()
    };
    (Negotiated { minor: init.minor, capabilities, max_write: wanted.max_write }, answer)
}

/// The threads that serve a mount.
#[derive(Debug)]
pub struct Session {
    threads: Vec<JoinHandle<io::Result<()>>>,
    interrupts: Arc<Interrupts>,
}

impl Session {
    /// Serves a mount whose INIT is answered, on `threads` threads.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn serve(
        device: &Device,
        negotiated: &Negotiated,
        handler: impl Handler,
        threads: usize,
    ) -> io::Result<Session> {
        let (handler, interrupts) = (Arc::new(handler), Arc::new(Interrupts::default()));
        let start = |n| {
            let worker = Worker {
                device: device.clone(),
                handler: Arc::clone(&handler),
                agreed: negotiated.capabilities,
                interrupts: Arc::clone(&interrupts),
                // Not zeros: those have no pages yet, and the kernel cannot add them for a process that is being
                // killed. The request that it copies there would fail with EIO instead of waiting for a successor.
                buffer: vec![0xff; buffer_bytes(negotiated.max_write)],
            };
            std::thread::Builder::new().name(format!("fuse-{n}")).spawn(move || worker.run())
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Session { threads, interrupts })
    }

    /// Goes on where a process that died left off: what it has read and not answered is asked again.
    ///
    /// # Errors
    /// As [`Session::serve`]; what the kernel says where it cannot ask again.
    pub fn resume(
        device: &Device,
        negotiated: &Negotiated,
        handler: impl Handler,
        threads: usize,
    ) -> io::Result<Session> {
        // Before the first thread reads: it would be asked again for what it has just read, too.
        Notifier::new(device).resend()?;
        Session::serve(device, negotiated, handler, threads)
    }

    /// Waits until the mount has ended.
    ///
    /// # Errors
    /// Why a thread ended before that.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended =
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the session panicked")));
            result = result.and(ended);
        }
        self.interrupts.end();
        result
    }
}

struct Worker<H> {
    device: Device,
    handler: Arc<H>,
    /// Bits of [`capability`].
    agreed: u64,
    interrupts: Arc<Interrupts>,
    buffer: Vec<u8>,
}

impl<H: Handler> Worker<H> {
    fn run(mut self) -> io::Result<()> {
        while let Some((header, body)) = next(&self.device, &mut self.buffer)? {
            match parse(header.opcode, body, self.agreed) {
                Ok(Message::Operation(operation)) => {
                    let reply = Reply::new(&self.device, header.unique);
                    let request = Request::new(header, operation, &self.interrupts);
                    let handle = || self.handler.handle(&request, reply);
                    // The reply was dropped on the way, which answers the request.
                    if std::panic::catch_unwind(AssertUnwindSafe(handle)).is_err() {
                        tracing::error!(opcode = header.opcode, "a request made its handler panic");
                    }
                }
                Ok(Message::Interrupt { unique }) => self.interrupts.interrupt(unique),
                Ok(Message::Notice) => {}
                Ok(Message::Init(_)) | Err(_) => {
                    tracing::error!(
                        opcode = header.opcode,
                        "the kernel sent something that is not a request"
                    );
                    Reply::new(&self.device, header.unique).error(Errno::IO);
                }
            }
        }
        Ok(())
    }
}

/// The next message; `None` when the mount has ended.
fn next<'a>(device: &Device, buffer: &'a mut [u8]) -> io::Result<Option<(InHeader, &'a [u8])>> {
    let len = loop {
        match device.read(buffer) {
            Ok(len) => break len,
            // The request was taken back while it was read.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::NODEV) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    };
    let message = split(&buffer[..len]);
    message
        .map(Some)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the kernel sent no whole header"))
}

/// What a thread needs to read any request.
fn buffer_bytes(max_write: u32) -> usize {
    let largest = max_write as usize + size_of::<InHeader>() + size_of::<WriteIn>();
    largest.next_multiple_of(PAGE_BYTES as usize).max(READ_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted {
        capabilities: capability::FLOCK_LOCKS | capability::PASSTHROUGH | capability::HAS_RESEND,
        max_write: 1 << 20,
        max_readahead: 1 << 20,
    };

    #[test]
    fn what_is_agreed_is_what_both_sides_have() {
        let low = u32::try_from(capability::INIT_EXT | capability::FLOCK_LOCKS).unwrap();
        let init = InitIn { major: 7, minor: 45, max_readahead: 4096, flags: low };
        let high = u32::try_from(capability::HAS_RESEND >> 32).unwrap();
        let (agreed, answer) = agree(&init, high.as_bytes(), &WANTED);
        assert!(agreed.has(capability::FLOCK_LOCKS) && agreed.has(capability::HAS_RESEND));
        assert!(!agreed.has(capability::PASSTHROUGH));
        assert_eq!((answer.flags, answer.flags2), (low, high));
        assert_eq!((answer.max_pages, answer.max_readahead, answer.max_stack_depth), (256, 4096, 0));
    }

    #[test]
    fn a_kernel_without_the_second_word_of_flags_agrees_on_the_first() {
        let flags = u32::try_from(capability::FLOCK_LOCKS).unwrap();
        let init = InitIn { major: 7, minor: 31, max_readahead: 1 << 20, flags };
        let (agreed, answer) = agree(&init, &[0xff; 4], &WANTED);
        assert_eq!(agreed.capabilities, capability::FLOCK_LOCKS);
        assert_eq!((answer.flags, answer.flags2), (flags, 0));
    }
}
