//! Requests and replies. A variant is only ever added at the end: its number is its name on the wire.

#![expect(missing_docs, reason = "a request's fields are named as in POSIX; the variants are documented")]

mod class;
mod closed;
mod granted;
mod losses;
mod modes;

use model::{FragmentIndex, Ino};
use serde::{Deserialize, Serialize};

use super::credential::Grant;
use super::types::{Attr, Creator, DirEntry, FileKind, FileLock, SetAttr, Time};

pub use class::{Asker, Change};
pub use closed::{ClosedHandle, NO_EPOCH, Written};
pub use losses::{EVERYTHING, FEATURES, LOSSES, LOSSES_MAX, Loss, LossRequest, LostOf, NAMES};
pub use modes::{AllocateMode, RenameMode, XattrMode};

/// What a client asks. The namespace is the one that the handshake named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    // --- metadata: the home shard answers ---
    /// The inode behind a name. Answer: [`Reply::Inode`].
    Lookup { parent: Ino, name: Vec<u8> },
    /// An inode's attributes. Answer: [`Reply::Inode`].
    GetAttr { ino: Ino },
    /// Changes attributes; a size also on every fragment. Answer: [`Reply::Inode`].
    SetAttr { ino: Ino, set: SetAttr },
    /// Makes a regular file that must not exist yet and opens it for writing. Answer: [`Reply::Made`].
    Create { parent: Ino, name: Vec<u8>, mode: u32, creator: Creator },
    /// Makes any other inode; `target` is a symbolic link's text. Answer: [`Reply::Made`].
    Make {
        parent: Ino,
        name: Vec<u8>,
        kind: FileKind,
        mode: u32,
        rdev: u64,
        target: Vec<u8>,
        creator: Creator,
    },
    /// Gives an inode one more name. Answer: [`Reply::Inode`].
    Link { ino: Ino, parent: Ino, name: Vec<u8> },
    /// Takes a name away from anything but a directory. Answer: [`Reply::Removed`].
    Unlink { parent: Ino, name: Vec<u8> },
    /// Removes an empty directory. Answer: [`Reply::Removed`].
    Rmdir { parent: Ino, name: Vec<u8> },
    /// Moves a name. Answer: [`Reply::Done`].
    Rename { parent: Ino, name: Vec<u8>, new_parent: Ino, new_name: Vec<u8>, mode: RenameMode },
    /// A page of entries that follow `cookie` (0: from the start). Answer: [`Reply::Entries`], empty at the end.
    ReadDir { ino: Ino, cookie: u64 },
    /// A symbolic link's text. Answer: [`Reply::Bytes`].
    ReadLink { ino: Ino },
    /// Notes that this session has the file open. Answer: [`Reply::Inode`].
    Open { ino: Ino, write: bool },
    /// Notes that this session closed handles. Answer: [`Reply::Measure`] with those files whose size the shard cannot
    /// know: the client then measures every fragment and says so with `Settle`.
    Close { handles: Vec<ClosedHandle> },
    /// The size of a file that nobody writes any more, measured at `epoch`. Answer: [`Reply::Done`].
    Settle { ino: Ino, size: u64, mtime: Time, epoch: u64 },
    /// After a restart: the files that this session has open, as (inode, readers, writers). Answer: [`Reply::Done`].
    Reclaim { opens: Vec<(Ino, u32, u32)> },
    /// An extended attribute's value. Answer: [`Reply::Bytes`].
    GetXattr { ino: Ino, name: Vec<u8> },
    /// Sets an extended attribute. Answer: [`Reply::Done`].
    SetXattr { ino: Ino, name: Vec<u8>, value: Vec<u8>, mode: XattrMode },
    /// Names of extended attributes. Answer: [`Reply::Names`].
    ListXattr { ino: Ino },
    /// Removes an extended attribute. Answer: [`Reply::Done`].
    RemoveXattr { ino: Ino, name: Vec<u8> },
    /// Makes every metadata change so far survive a power loss. Answer: [`Reply::Done`].
    SyncMetadata,
    /// Waits until the space of removed files is free on every fragment. Answer: [`Reply::Done`].
    AwaitDestroyed,
    /// This session ends: its open files are closed. Answer: [`Reply::Done`].
    Goodbye,

    // --- data: every fragment answers for its own objects ---
    /// Reads an object. Answer: [`Reply::Data`] with the bytes as payload, short at the object's end.
    Read { ino: Ino, offset: u64, len: u32 },
    /// Writes the payload into an object. Answer: [`Reply::Stored`].
    Write { ino: Ino, offset: u64 },
    /// Sets an object's length. Answer: [`Reply::Done`].
    Resize { ino: Ino, size: u64 },
    /// Allocates or frees a range of an object. Answer: [`Reply::Stored`].
    Allocate { ino: Ino, offset: u64, len: u64, mode: AllocateMode },
    /// Makes an object survive a power loss. Answer: [`Reply::Done`].
    Sync { ino: Ino },
    /// Measures an object. Answer: [`Reply::Object`].
    Measure { ino: Ino },
    /// The next range with data at or after `offset`. Answer: [`Reply::Range`].
    NextData { ino: Ino, offset: u64 },
    /// Removes an object. Answer: [`Reply::Done`], also when there is none.
    Destroy { ino: Ino },
    /// How full the fragment is. Answer: [`Reply::Usage`].
    Usage,
    /// The object itself, as a file descriptor that follows the reply (unix sockets only). Answer:
    /// [`Reply::Descriptor`]; ENOTSUP where the kernel could not keep the capacity without us; ENOENT where the object
    /// is a part of a file and nothing was written to it. [`JUST_MADE`] is the file that the request before
    /// on the same connection made, so that both go in one round trip; ENOENT where that made none.
    OpenObject { ino: Ino },

    // --- metadata again: the home shard answers ---
    /// A lock that conflicts with this one. Answer: [`Reply::Lock`].
    TestLock { ino: Ino, owner: u64, lock: FileLock },
    /// Takes or gives up a lock, waiting for it at most `wait_ms` milliseconds. Answer: [`Reply::Done`], or EAGAIN.
    SetLock { ino: Ino, owner: u64, lock: FileLock, wait_ms: u32 },
    /// Gives up every range lock that the owner has on a file, as closing it does. Answer: [`Reply::Done`].
    ReleaseLocks { ino: Ino, owner: u64 },
    /// After [`Request::Reclaim`]: the locks that this session holds, as (inode, owner, lock). Answer: [`Reply::Done`].
    ReclaimLocks { locks: Vec<(Ino, u64, FileLock)> },
    /// The place of `len` bytes at the end of a file that is at least `size` bytes long. Answer: [`Reply::Offset`].
    ReserveEnd { ino: Ino, size: u64, len: u64 },
    /// Nothing: shows that the client lives. Answer: [`Reply::Done`].
    Ping,

    // --- every fragment ---
    /// Ends this session's other connections to the namespace here, and waits until nothing that came by them is being
    /// done any more: so that no old write lands after what is asked next. Answer: [`Reply::Done`].
    Fence,

    // --- data again: every fragment answers for its own objects ---
    /// Writes the payload into places of an object, as (offset, length), in order. Answer: [`Reply::Stored`].
    WriteExtents { ino: Ino, extents: Vec<(u64, u32)> },

    // --- every fragment ---
    /// Hands this connection over to a process on the node that copies for a stage, with the rights of its owner, if it
    /// is shown that control gave it: see `wire::mover`. Answer: [`Reply::Done`], after which nothing of the data path
    /// is said any more; or ENOTSUP where the node starts none.
    StartMover,

    // --- data again: every fragment answers for its own objects ---
    /// Makes all these objects survive a power loss. Answer: [`Reply::Done`]. Where the disk has lost something of one,
    /// of which this session was not told by [`Request::Sync`]: EREMOTEIO, or EUCLEAN where no session was; EAGAIN
    /// while the home of the namespace has not heard of it.
    SyncMany { inos: Vec<Ino> },

    // --- metadata again: the home shard answers ---
    /// Whether somebody has the file open for writing, or may have as the shard was just restarted. Answer:
    /// [`Reply::Truth`].
    IsWritten { ino: Ino },

    // --- every fragment ---
    /// The fragment's commit verifier: a number that changes exactly when what was answered before, and not synced, may
    /// be lost. Answer: [`Reply::Verifier`].
    Verifier,

    // --- metadata again: the home shard answers ---
    /// Another fragment has lost what was changed of these files, or of any if none is named, and not synced: their
    /// sizes are what the fragments have. Answer: [`Reply::Done`].
    Doubt { inos: Vec<Ino> },

    // --- data again: every fragment answers for its own objects ---
    /// Objects with numbers above `after`, in order. Answer: [`Reply::Objects`], empty at the end.
    ListObjects { after: Ino },

    // --- second copies of metadata logs: a home shard asks the node that keeps its one, see `data::hello::copying` ---
    /// Begins a copy of the namespace's log, which takes the place of the former one at its first
    /// [`Request::SyncCopy`]. Answer: [`Reply::Done`].
    BeginCopy,
    /// Appends the payload at `offset`, where the copy of this connection ends. The home has synced its log up to entry
    /// `confirmed`: it must never be without these again. Answer: [`Reply::Done`].
    AppendCopy { offset: u64, confirmed: u64 },
    /// Makes the copy of this connection survive a power loss; it is whole up to `length`, bytes. Answer:
    /// [`Reply::Done`].
    SyncCopy { length: u64 },
    /// Which copy is kept. Answer: [`Reply::Copy`].
    FindCopy,
    /// Reads it. Answer: [`Reply::Data`] with the bytes as payload, short at its end.
    ReadCopy { offset: u64, len: u32 },

    // --- mirrors of objects: a fragment asks the node that keeps its one, see `data::member` ---
    /// Says that this fragment, which has this commit verifier, goes on with its mirror. Answer: [`Reply::Mirror`].
    BeginMirror { verifier: u64 },
    /// Notes durably whether the mirror has all that was answered, but for these objects. Answer: [`Reply::Done`].
    NoteMirror { whole: bool, lacking: Vec<Ino> },
    /// Which mirror there is, for a fragment that takes the place of one that is lost. Answer: [`Reply::Mirror`].
    FindMirror,

    // --- metadata again: the home shard answers ---
    /// Objects that the fragment `fragment` should have, with numbers above `after`, in order: for one that takes the
    /// place of one that is lost. As long as they should be; where only that fragment could say, [`UNKNOWN_BYTES`]
    /// longer than they were once. Answer: [`Reply::Objects`], empty at the end.
    ListMeant { fragment: FragmentIndex, after: Ino },

    // --- mirrors of objects again ---
    /// What the mirror has of an object. Answer: [`Reply::Mirrored`].
    DescribeMirrored { ino: Ino },

    // --- data again: every fragment answers for its own objects ---
    /// Objects with numbers above `after`, in order, whose checksums were lost, so that nobody knows whether they are
    /// what was written. Where a mirror may know, the answer waits for that, within bounds. Answer: [`Reply::Objects`]
    /// without lengths, empty at the end.
    ListUnverified { after: Ino },

    // --- mirrors of objects again ---
    /// How often the fragment that asks has found its mirror, as far as the mirror has heard. Also asked by connections
    /// about the copy of its log, and answered where the mirror's node does not serve its own fragment. Answer:
    /// [`Reply::Meeting`].
    FindMeeting,
    /// The fragment has found its mirror so often, this time included: the mirror notes it durably. Answer:
    /// [`Reply::Done`].
    NoteMeeting { number: u64 },

    // --- data again: every fragment answers for its own objects ---
    /// Removes these objects, which were asked to be removed before: those that are there, as a power loss brought them
    /// back. None of them comes back any more. Answer: [`Reply::Done`].
    DestroyForGood { inos: Vec<Ino> },

    // --- every fragment ---
    /// What a client that works for a user asks of an object, encoded, and the grant that lets it. Answer: as that of
    /// the request in it.
    Granted { grant: Grant, request: Vec<u8> },

    // --- metadata again: the home shard answers; only asked of one that understands it, see [`FEATURES`] ---
    /// What no fsync had confirmed, and was lost. Answer: [`Reply::Losses`] to [`LossRequest::List`], [`Reply::Truth`]
    /// to [`LossRequest::Confirmed`], else [`Reply::Done`].
    Losses(LossRequest),

    // --- metadata again: the home shard answers, to a mount in which root has the rights of nobody ---
    /// Whether nobody (uid 65534) may do what is asked in it, encoded, whatever the session has open. Nothing is done.
    /// Answer: [`Reply::Done`].
    Squashed { request: Vec<u8> },
}

/// Added to the length of an object where only its fragment could say it: longer than any is.
pub const UNKNOWN_BYTES: u64 = 1 << 50;

/// No inode has this number.
pub const JUST_MADE: Ino = Ino(0);

/// What a storage node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// It failed with this errno.
    Failed(i32),
    /// An inode.
    Inode(InodeReply),
    /// A page of directory entries. In step: whether somebody may be writing, and how often the time of change was set,
    /// as in [`InodeReply`].
    Entries { entries: Vec<DirEntry>, live: Vec<(bool, u64)> },
    /// A value.
    Bytes(Vec<u8>),
    /// Names.
    Names(Vec<Vec<u8>>),
    /// The payload has the bytes.
    Data,
    /// Written at this time.
    Stored { mtime: Time },
    /// The last writers of these files closed, and the sizes are not known: measure them. As (inode, epoch).
    Measure(Vec<(Ino, u64)>),
    /// An object's length, bytes, its time of change, and its space in units of 512 bytes.
    Object { size: u64, mtime: Time, blocks: u64 },
    /// A range of an object that has data; `None`: only a hole to its end.
    Range(Option<(u64, u64)>),
    /// Bytes that the fragment may hold, bytes that it holds, inodes of the namespace (0 but on the home shard).
    Usage { capacity: u64, used: u64, inodes: u64 },
    /// A file descriptor follows.
    Descriptor,
    /// The lock in the way, if any.
    Lock(Option<FileLock>),
    /// A place in a file.
    Offset(u64),
    /// A new inode, and its folder's attributes now.
    Made { inode: InodeReply, parent: Attr },
    /// A name was removed; its folder's attributes now.
    Removed { parent: Attr },
    /// Whether it is so.
    Truth(bool),
    /// The fragment's commit verifier.
    Verifier(u64),
    /// Objects, as (inode, length in bytes).
    Objects(Vec<(Ino, u64)>),
    /// The copy of a metadata log: its length, bytes (0: there is none), and up to which entry the home had synced its
    /// log.
    Copy { length: u64, confirmed: u64 },
    /// The mirror's life: a number that changes when the mirror is another one, or may have lost what was not synced;
    /// whether it has all that its fragment has answered, but for these objects; and the commit verifier of that, if
    /// the mirror has lost nothing since it heard it.
    Mirror { life: u64, whole: bool, lacking: Vec<Ino>, verifier: Option<u64> },
    /// To a client that says what it has open: these files are gone. They had no name, and it was away too long.
    Gone(Vec<Ino>),
    /// An object's length, bytes (0: there may be none), and its time of change; whether it has checksums that nobody
    /// has changed it since; whether such were lost, so that nobody knows what it should be.
    Mirrored { size: u64, mtime: Time, sealed: bool, unverified: bool },
    /// How often a fragment has found its mirror.
    Meeting(u64),
    /// To a client that works for a user, of a file that it has opened (`Inode`) or made (`Made`, with `parent`): what
    /// it shows for the file's objects.
    Granted { grant: Grant, inode: InodeReply, parent: Option<Attr> },
    /// Losses in the order of their numbers, those of the file that was named last.
    Losses(Vec<Loss>),
}

/// An inode as the home shard knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InodeReply {
    /// Its attributes.
    pub attr: Attr,
    /// Somebody may be writing: size, time and space are to be measured on the fragments.
    pub live: bool,
    /// What a size that is measured now belongs to: another one once a first writer opens it, or it is cut off.
    pub epoch: u64,
    /// How often its time of change was set since the shard started.
    pub times: u64,
}
