//! Root of a mount that squashes it has the rights of nobody.
//!
//! The kernel lets root pass (`CAP_DAC_OVERRIDE`), so what root asks for is judged by the home shard before it is done,
//! with all folders above: what is cached of names does not lead past them. What it makes is nobody's. What is asked
//! through an open file was judged at the open, also where the file was opened by another.
//!
//! **Invariant:** a request of root's that is not listed here as free is judged.

use client::{Errno, Result};
use fuse::abi::{OpenIn, SetAttrIn, set_attr};
use fuse::reply::Reply;
use fuse::request::{Operation, Request};
use fuse::session::Handler;
use model::Ino;
use rustix::fs::OFlags;
use wire::data::credential::NOBODY;
use wire::data::message::RenameMode;
use wire::data::{Creator, FileKind, Request as Asked};

use super::names::kind_of;
use super::{Kernel, attributes};

const ROOT: u32 = 0;

/// As whom root makes things.
const AS_NOBODY: Creator = Creator { uid: NOBODY, gid: NOBODY, umask: 0 };

/// Answers the kernel, and root as if nobody had asked.
pub(super) struct Squashed {
    kernel: Kernel,
    squashes_root: bool,
}

impl Squashed {
    /// Where the mount's credential does not say that it squashes root it is as `kernel`.
    pub(super) fn new(kernel: Kernel) -> Squashed {
        let squashes_root = kernel.namespace.client().squashes_root();
        Squashed { kernel, squashes_root }
    }

    fn judge(&self, request: &Request<'_>) -> Result<()> {
        let client = self.kernel.namespace.client();
        asked(request)?.iter().try_for_each(|asked| client.may_nobody(asked))
    }
}

impl Handler for Squashed {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        if !self.squashes_root || request.uid() != ROOT {
            return self.kernel.handle(request, reply);
        }
        match self.judge(request) {
            Ok(()) => self.kernel.handle(&request.by(NOBODY, NOBODY), reply),
            Err(errno) => reply.error(errno),
        }
    }
}

/// What nobody must be allowed to for this.
///
/// # Errors
/// It is for no user but root, or is not known here.
fn asked(request: &Request<'_>) -> Result<Vec<Asked>> {
    let ino = Ino::from(request.ino());
    Ok(match request.operation {
        Operation::SetAttr(set) => changed(ino, &set),
        Operation::Open(open) => opened(ino, &open),
        Operation::OpenDirectory => vec![Asked::ReadDir { ino, cookie: 0 }],
        Operation::ReadLink => vec![Asked::ReadLink { ino }],
        Operation::ListXattr { .. } => vec![Asked::ListXattr { ino }],
        Operation::GetXattr { name, .. } => vec![read(ino, name)?],
        Operation::SetXattr { name, flags, kill_sgid, .. } => {
            let mode = attributes::xattr_mode(flags, kill_sgid);
            vec![Asked::SetXattr { ino, name: name.to_vec(), value: Vec::new(), mode }]
        }
        Operation::RemoveXattr { name } => vec![Asked::RemoveXattr { ino, name: name.to_vec() }],
        operation if is_free(&operation) => Vec::new(),
        operation => vec![named(ino, &operation).ok_or(Errno::PERM)?],
    })
}

/// What is about a name in the folder `parent`.
fn named(parent: Ino, operation: &Operation<'_>) -> Option<Asked> {
    Some(match *operation {
        Operation::Lookup { name } => Asked::Lookup { parent, name: name.to_vec() },
        Operation::MakeNode { arguments, name } => made(parent, name, kind_of(arguments.mode)?),
        Operation::MakeDirectory { name, .. } => made(parent, name, FileKind::Directory),
        Operation::Symlink { name, .. } => made(parent, name, FileKind::Symlink),
        Operation::Create { name, .. } => made(parent, name, FileKind::Regular),
        Operation::Link { ino, name } => Asked::Link { ino: ino.into(), parent, name: name.to_vec() },
        Operation::Unlink { name } => Asked::Unlink { parent, name: name.to_vec() },
        Operation::RemoveDirectory { name } => Asked::Rmdir { parent, name: name.to_vec() },
        Operation::Rename { name, new_parent, new_name, flags } => {
            let (name, new_parent, new_name) = (name.to_vec(), new_parent.into(), new_name.to_vec());
            Asked::Rename { parent, name, new_parent, new_name, mode: mode(flags) }
        }
        _ => return None,
    })
}

/// What is asked by an open file, or of one, and what is nobody's. The kernel also asks by itself for some of these,
/// and says then that root does.
fn is_free(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::GetAttr
            | Operation::Read(_)
            | Operation::Write { .. }
            | Operation::Allocate(_)
            | Operation::Seek(_)
            | Operation::Fsync(_)
            | Operation::Flush(_)
            | Operation::Release(_)
            | Operation::ReadDirectory(_)
            | Operation::ReadDirectoryPlus(_)
            | Operation::FsyncDirectory(_)
            | Operation::ReleaseDirectory
            | Operation::TestLock(_)
            | Operation::SetLock(_)
            | Operation::WaitLock(_)
            | Operation::StatFs
            | Operation::Unknown { .. }
    )
}

fn made(parent: Ino, name: &[u8], kind: FileKind) -> Asked {
    let (name, target) = (name.to_vec(), Vec::new());
    Asked::Make { parent, name, kind, mode: 0, rdev: 0, target, creator: AS_NOBODY }
}

fn opened(ino: Ino, open: &OpenIn) -> Vec<Asked> {
    let access = OFlags::from_bits_retain(open.flags) & OFlags::ACCMODE;
    let reads = access != OFlags::WRONLY;
    let writes = access != OFlags::RDONLY;
    let wanted = [(reads, false), (writes, true)].into_iter().filter(|(is, _)| *is);
    wanted.map(|(_, write)| Asked::Open { ino, write }).collect()
}

/// Times that are set to now are changed as by a write: whoever may write may do that.
fn changed(ino: Ino, set: &SetAttrIn) -> Vec<Asked> {
    let has = |flag| set.valid & flag != 0;
    let mut wanted = attributes::wanted(set);
    if has(set_attr::ATIME_NOW) {
        wanted.atime = None;
    }
    if has(set_attr::MTIME_NOW) {
        wanted.mtime = None;
    }
    let touches = has(set_attr::ATIME_NOW | set_attr::MTIME_NOW) && wanted.size.is_none();
    // The kernel cuts off only what was opened for writing.
    if has(set_attr::FH) {
        (wanted.size, wanted.drop_privileges) = (None, false);
    }
    let touched = touches.then_some(Asked::Open { ino, write: true });
    [Asked::SetAttr { ino, set: wanted }].into_iter().chain(touched).collect()
}

/// What an extended attribute says is for who may read the file, of some kinds for everybody who reaches it.
fn read(ino: Ino, name: &[u8]) -> Result<Asked> {
    match name {
        name if name.starts_with(b"trusted.") => Err(Errno::NODATA),
        name if name.starts_with(b"security.") => Ok(Asked::GetAttr { ino }),
        name => Ok(Asked::GetXattr { ino, name: name.to_vec() }),
    }
}

/// Those that are no modes of ours are refused by who renames.
fn mode(flags: u32) -> RenameMode {
    match rustix::fs::RenameFlags::from_bits_retain(flags) {
        rustix::fs::RenameFlags::EXCHANGE => RenameMode::Exchange,
        _ => RenameMode::Replace,
    }
}
