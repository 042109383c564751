//! One connection: handshake, then requests in turn, each answered before the next is read.

mod admission;
mod hurried;
mod listening;
mod mirroring;
mod permission;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use disk::aligned::Aligned;
use model::{Ino, SessionId};
use rustix::io::Errno;
use wire::data::credential::Identity;
use wire::data::hello::{self, Claim, HelloError, Refusal};
use wire::data::message::{JUST_MADE, Reply};
use wire::data::{Connection, PAYLOAD_BYTES_MAX, Request, Stream, Time};

use crate::copies;
use crate::errno::errno_of;
use crate::fragment::{Fragment, NamespacePart};
use crate::replica::Replica;
use crate::server::Server;
use crate::server::places::{Place, Stranger};
use hurried::Hurried;

/// How long a stranger may take for the whole handshake.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a connection to its end.
fn serve(server: &Server, stranger: Stranger, stream: Stream) {
    let greeted = greet(server, stranger.stream(), stream);
    drop(stranger);
    let (served, stream) = match greeted {
        Ok(greeted) => greeted,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "turned a connection away");
            return;
        }
    };
    let connected = stream.set_timeout(None).map(|()| Connection::new(stream));
    let end = match (served, connected) {
        (_, Err(error)) => error,
        (Served::Client(mut worker), Ok(connection)) => worker.run(server, connection),
        (Served::Home(mut worker, _place), Ok(connection)) => worker.run(connection, || server.pulse.check()),
    };
    tracing::debug!(end = %end, "a connection ended");
}

/// Who answers it.
enum Served {
    Client(Worker),
    Home(copies::connection::Worker, Place),
}

/// The handshake. The connection is noted before the client is welcome: a fence that comes after the client's death
/// must find all that it could have sent something by. What follows goes over the stream that is given back.
fn greet(server: &Server, handle: &Arc<Stream>, mut stream: Stream) -> Result<(Served, Stream), HelloError> {
    let is_over_network = stream.is_over_network();
    let mut hurried = Hurried { stream: &mut stream, until: Instant::now() + HELLO_TIMEOUT };
    // A refusal is final for clients; a connection that is dropped they try again.
    let find = |claim: &Claim| {
        let may_come = server.may_come(&claim.instance);
        admission::find(server, claim).inspect_err(|_| match may_come || server.is_stopping() {
            true => handle.shutdown(),
            false => server.miss(&claim.instance),
        })
    };
    let admit = |claim: &Claim, identity, asked| {
        // Whoever has another key was told so before this; whoever has the same comes again.
        if server.is_unsure(&claim.instance) {
            return Err(Refusal::Busy);
        }
        let ends = |_: &_| {
            if server.is_stopping() {
                handle.shutdown()
            }
        };
        admission::admit(&server.places, claim, identity, asked, handle).inspect_err(ends)
    };
    let (served, ciphers) = match is_over_network {
        true => hello::welcome_over_network(&mut hurried, server.boot(), find, admit)?,
        false => (hello::welcome(&mut hurried, server.boot(), find, admit)?, None),
    };
    Ok((served, stream.encrypted(ciphers)?))
}

struct Worker {
    fragment: Arc<Fragment>,
    namespace: NamespacePart,
    namespace_id: u32,
    session: SessionId,
    identity: Identity,
    place: Place,
    /// The connection's, in the fragment.
    number: u64,
    /// The file that the last request made.
    made: Option<Ino>,
    /// Payload of a write that came in or of a read that goes out: the first `filled` bytes.
    buffer: Aligned,
    filled: usize,
}

/// Also when it panics: a client must not wait for a connection that nobody serves.
impl Drop for Worker {
    fn drop(&mut self) {
        self.fragment.connections().remove(self.number);
        self.namespace.shard.iter().for_each(|shard| shard.disconnected(self.session));
    }
}

impl Worker {
    fn new(
        fragment: Arc<Fragment>,
        namespace: NamespacePart,
        (claim, identity): (&Claim, Identity),
        (place, number): (Place, u64),
    ) -> Worker {
        let (session, namespace_id) = (claim.session, claim.namespace);
        let (made, buffer, filled) = (None, Aligned::default(), 0);
        Worker { fragment, namespace, namespace_id, session, identity, place, number, made, buffer, filled }
    }

    /// Answers requests until the connection ends, and tells why it did.
    fn run(&mut self, server: &Server, mut connection: Connection) -> io::Error {
        loop {
            if let Err(end) = self.turn(server, &mut connection) {
                return end;
            }
        }
    }

    fn turn(&mut self, server: &Server, connection: &mut Connection) -> io::Result<()> {
        self.place.rests();
        let frame = connection.receive::<Request>()?;
        self.place.is_asked();
        connection.payload(self.fill(frame.payload_len))?;
        let made = self.made.take();
        let request = match self.permitted(frame.message) {
            Ok(request) => request,
            Err(errno) => return connection.queue(frame.id, &Reply::Failed(errno.raw_os_error()), &[]),
        };
        if let Request::OpenObject { ino } = request {
            let asked = if ino == JUST_MADE { made } else { Some(ino) };
            // Another machine has no use for it, and a connection that breaks would be taken for a lost node.
            let object = if connection.is_local() { self.object(asked) } else { Err(Errno::NOTSUP.into()) };
            server.pulse.check()?;
            return match object {
                Ok(descriptor) => {
                    connection.send(frame.id, &Reply::Descriptor, &[])?;
                    connection.send_descriptor(descriptor.as_fd())
                }
                Err(error) => connection.send(frame.id, &Reply::Failed(errno_of(&error).raw_os_error()), &[]),
            };
        }
        if request == Request::StartMover {
            return self.hand_over(server, frame.id, connection);
        }
        let makes = matches!(request, Request::Create { .. });
        let reply = self.answer(frame.id, request);
        server.pulse.check()?;
        if let Some(inode) = reply.inode().filter(|_| makes) {
            self.made = Some(inode.attr.ino);
        }
        let payload = if reply == Reply::Data { &self.buffer[..self.filled] } else { &[] };
        // Of a client that has sent more requests already, one wake-up for several answers.
        connection.queue(frame.id, &reply, payload)
    }

    fn object(&self, ino: Option<Ino>) -> io::Result<OwnedFd> {
        let ino = ino.ok_or(Errno::NOENT)?;
        match &self.namespace.shard {
            Some(shard) if shard.measures_itself() => shard.descriptor(ino),
            // A part of a file: whoever asks for it keeps account of the file's size.
            _ => self.namespace.objects.existing_descriptor(ino),
        }
    }

    /// Lets a mover speak on the connection, to its end or the fragment's. Where it is encrypted the mover begins anew.
    fn hand_over(&mut self, server: &Server, id: u64, connection: &mut Connection) -> io::Result<()> {
        let Some((run, spec)) = server.mover(&self.fragment.spec().instance) else {
            return connection.send(id, &Reply::Failed(Errno::NOTSUP.raw_os_error()), &[]);
        };
        self.place.is_lent();
        let stream = connection.try_clone_stream()?;
        server.pulse.check()?;
        connection.send(id, &Reply::Done, &[])?;
        let ran = run(stream.into(), &spec, self.namespace_id);
        if let Err(error) = &ran {
            tracing::error!(instance = ?self.fragment.spec().instance, %error, "a mover of a stage cannot be run");
        }
        Err(ran.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }

    fn answer(&mut self, id: u64, request: Request) -> Reply {
        let objects = &self.namespace.objects;
        let result = match request {
            Request::Read { ino, offset, len } => self.read(ino, offset, len),
            Request::Write { ino, offset } => {
                self.namespace.objects.write(ino, offset, &self.buffer[..self.filled]).map(stored)
            }
            Request::WriteExtents { ino, extents } => self.write_extents(ino, &extents),
            Request::Resize { ino, size } => self.namespace.objects.resize(ino, size).map(|()| Reply::Done),
            Request::Allocate { ino, offset, len, mode } => {
                self.namespace.objects.allocate(ino, offset, len, mode).map(stored)
            }
            Request::Sync { ino } => objects.sync((self.session, id), ino).map(|()| Reply::Done),
            Request::SyncMany { inos } => objects.sync_many(self.session, &inos).map(|()| Reply::Done),
            Request::BeginMirror { .. }
            | Request::FindMirror
            | Request::NoteMirror { .. }
            | Request::FindMeeting
            | Request::NoteMeeting { .. } => {
                self.replica().and_then(|replica| mirroring::answer(replica, &request))
            }
            Request::Verifier => Ok(Reply::Verifier(self.fragment.verifier().number())),
            Request::Measure { ino } => objects.tell_measure(ino),
            Request::NextData { ino, offset } => objects.tell_next_data(ino, offset),
            Request::DescribeMirrored { ino } => objects.describe(ino),
            Request::Destroy { ino } => self.namespace.objects.destroy(ino).map(|()| Reply::Done),
            Request::DestroyForGood { inos } => objects.destroy_for_good(&inos).map(|()| Reply::Done),
            Request::ListObjects { after } => self.namespace.objects.page(after).map(Reply::Objects),
            Request::ListUnverified { after } => objects.page_of_unverified(after).map(Reply::Objects),
            Request::Usage => self.usage(),
            Request::Fence => {
                self.fragment.connections().fence(self.number);
                self.namespace.shard.iter().for_each(|shard| shard.fenced(self.session));
                Ok(Reply::Done)
            }
            metadata => match &self.namespace.shard {
                Some(shard) => Ok(self.ask(shard, id, metadata)),
                // A client asks the wrong node: its picture of the instance is not ours.
                None => Err(Errno::STALE.into()),
            },
        };
        result.unwrap_or_else(|error| {
            let errno = errno_of(&error);
            if errno == Errno::IO {
                tracing::error!(instance = ?self.fragment.spec().instance, %error, "an object cannot be used");
            }
            Reply::Failed(errno.raw_os_error())
        })
    }

    /// What the connection is of, if it is another fragment's that has its mirror here.
    fn replica(&self) -> io::Result<&Replica> {
        self.namespace.replica.as_deref().ok_or_else(|| Errno::NOTSUP.into())
    }

    /// The extents must make up the payload. Where one fails those before it are written.
    fn write_extents(&self, ino: Ino, extents: &[(u64, u32)]) -> io::Result<Reply> {
        let (mut rest, mut mtime) = (&self.buffer[..self.filled], Time::default());
        for &(offset, len) in extents {
            let (bytes, after) = rest.split_at_checked(len as usize).ok_or(Errno::INVAL)?;
            mtime = self.namespace.objects.write(ino, offset, bytes)?;
            rest = after;
        }
        if rest.is_empty() { Ok(stored(mtime)) } else { Err(Errno::INVAL.into()) }
    }

    fn read(&mut self, ino: Ino, offset: u64, len: u32) -> io::Result<Reply> {
        let len = len as usize;
        if len > PAYLOAD_BYTES_MAX {
            return Err(Errno::INVAL.into());
        }
        let objects = self.namespace.objects.clone();
        self.filled = objects.read(ino, offset, self.fill(len))?;
        Ok(Reply::Data)
    }

    /// The payload's place, `len` bytes long.
    fn fill(&mut self, len: usize) -> &mut [u8] {
        self.filled = len;
        self.buffer.first(len)
    }

    fn usage(&self) -> io::Result<Reply> {
        let space = self.fragment.space();
        let inodes = self.namespace.shard.as_ref().map_or(0, |shard| shard.inodes());
        Ok(Reply::Usage { capacity: space.capacity(), used: space.used()?, inodes })
    }
}

fn stored(mtime: Time) -> Reply {
    Reply::Stored { mtime }
}
