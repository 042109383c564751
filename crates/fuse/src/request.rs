//! Requests, parsed from the kernel's bytes.
//!
//! **Invariant:** no bytes make it panic: every length is checked against what is there.

mod asked;

use std::sync::Arc;

use zerocopy::FromBytes;

use crate::abi::{
    AllocateIn, CreateIn, FlushIn, FsyncIn, GetXattrIn, InHeader, InterruptIn, LinkIn, LockIn, MkdirIn,
    MknodIn, OpenIn, ReadIn, ReleaseIn, Rename2In, RenameIn, SETXATTR_KILL_SGID, SeekIn, SetAttrIn,
    SetXattrExtension, SetXattrIn, WriteIn, capability, opcode,
};
use crate::interrupt::Interrupts;

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    header: InHeader,
    /// What is asked.
    pub operation: Operation<'a>,
    interrupts: &'a Arc<Interrupts>,
}

/// What is asked of the inode that the request is about ([`Request::ino`]). Names come without their zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the protocol and in POSIX")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    GetAttr,
    SetAttr(SetAttrIn),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        arguments: MknodIn,
        name: &'a [u8],
    },
    MakeDirectory {
        arguments: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    /// The request's inode is the folder.
    Link {
        ino: u64,
        name: &'a [u8],
    },
    Open(OpenIn),
    Create {
        arguments: CreateIn,
        name: &'a [u8],
    },
    Read(ReadIn),
    Write {
        arguments: WriteIn,
        bytes: &'a [u8],
    },
    StatFs,
    Flush(FlushIn),
    Release(ReleaseIn),
    Fsync(FsyncIn),
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        /// An access list is set by somebody who loses set-group-id by it.
        kill_sgid: bool,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    OpenDirectory,
    ReadDirectory(ReadIn),
    ReadDirectoryPlus(ReadIn),
    ReleaseDirectory,
    FsyncDirectory(FsyncIn),
    TestLock(LockIn),
    SetLock(LockIn),
    /// May wait long: answer it from a thread of its own, and heed [`Request::cancellable`].
    WaitLock(LockIn),
    Allocate(AllocateIn),
    Seek(SeekIn),
    /// Something else; ENOSYS is the answer.
    Unknown {
        opcode: u32,
    },
}

/// What the session itself deals with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// For the handler.
    Operation(Operation<'a>),
    /// The kernel's INIT, unparsed.
    Init(&'a [u8]),
    /// This request should end.
    Interrupt { unique: u64 },
    /// The kernel forgot inodes, or says goodbye; no answer.
    Notice,
}

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Splits one message of the kernel into header and body.
pub(crate) fn split(bytes: &[u8]) -> Result<(InHeader, &[u8]), Malformed> {
    let (header, body) = InHeader::read_from_prefix(bytes).map_err(|_| Malformed)?;
    if header.len as usize == bytes.len() { Ok((header, body)) } else { Err(Malformed) }
}

/// Parses the body of a request with this opcode. The capabilities that were agreed on change the layout of some.
pub(crate) fn parse(opcode: u32, body: &[u8], agreed: u64) -> Result<Message<'_>, Malformed> {
    let mut body = Body(body);
    let operation = match opcode {
        opcode::INIT => return Ok(Message::Init(body.0)),
        opcode::INTERRUPT => {
            return Ok(Message::Interrupt { unique: body.take::<InterruptIn>()?.unique });
        }
        opcode::FORGET | opcode::BATCH_FORGET | opcode::DESTROY => return Ok(Message::Notice),
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        opcode::GETATTR => Operation::GetAttr,
        opcode::SETATTR => Operation::SetAttr(body.take()?),
        opcode::READLINK => Operation::ReadLink,
        opcode::SYMLINK => Operation::Symlink { name: body.name()?, target: body.name()? },
        opcode::MKNOD => Operation::MakeNode { arguments: body.take()?, name: body.name()? },
        opcode::MKDIR => Operation::MakeDirectory { arguments: body.take()?, name: body.name()? },
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::RemoveDirectory { name: body.name()? },
        opcode::RENAME => {
            let new_parent = body.take::<RenameIn>()?.newdir;
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let Rename2In { newdir: new_parent, flags, .. } = body.take()?;
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags }
        }
        opcode::LINK => Operation::Link { ino: body.take::<LinkIn>()?.oldnodeid, name: body.name()? },
        opcode::STATFS => Operation::StatFs,
        opcode::SETXATTR => {
            let SetXattrIn { size, flags } = body.take()?;
            let extension: SetXattrExtension =
                if agreed & capability::SETXATTR_EXT != 0 { body.take()? } else { Default::default() };
            let kill_sgid = extension.set_flags & SETXATTR_KILL_SGID != 0;
            Operation::SetXattr { name: body.name()?, value: body.bytes(size)?, flags, kill_sgid }
        }
        opcode::GETXATTR => {
            let size = body.take::<GetXattrIn>()?.size;
            Operation::GetXattr { name: body.name()?, size }
        }
        opcode::LISTXATTR => Operation::ListXattr { size: body.take::<GetXattrIn>()?.size },
        opcode::REMOVEXATTR => Operation::RemoveXattr { name: body.name()? },
        opcode => on_handle(opcode, &mut body)?,
    };
    Ok(Message::Operation(operation))
}

/// Operations on open files and folders.
fn on_handle<'a>(opcode: u32, body: &mut Body<'a>) -> Result<Operation<'a>, Malformed> {
    Ok(match opcode {
        opcode::OPEN => Operation::Open(body.take()?),
        opcode::CREATE => Operation::Create { arguments: body.take()?, name: body.name()? },
        opcode::READ => Operation::Read(body.take()?),
        opcode::WRITE => {
            let arguments: WriteIn = body.take()?;
            Operation::Write { arguments, bytes: body.bytes(arguments.size)? }
        }
        opcode::FLUSH => Operation::Flush(body.take()?),
        opcode::RELEASE => Operation::Release(body.take()?),
        opcode::FSYNC => Operation::Fsync(body.take()?),
        opcode::OPENDIR => Operation::OpenDirectory,
        opcode::READDIR => Operation::ReadDirectory(body.take()?),
        opcode::READDIRPLUS => Operation::ReadDirectoryPlus(body.take()?),
        opcode::RELEASEDIR => Operation::ReleaseDirectory,
        opcode::FSYNCDIR => Operation::FsyncDirectory(body.take()?),
        opcode::GETLK => Operation::TestLock(body.take()?),
        opcode::SETLK => Operation::SetLock(body.take()?),
        opcode::SETLKW => Operation::WaitLock(body.take()?),
        opcode::FALLOCATE => Operation::Allocate(body.take()?),
        opcode::LSEEK => Operation::Seek(body.take()?),
        opcode => Operation::Unknown { opcode },
    })
}

/// What is left of a request's body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<T: FromBytes>(&mut self) -> Result<T, Malformed> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| Malformed)?;
        self.0 = rest;
        Ok(value)
    }

    /// Bytes up to the next zero.
    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(Malformed)?;
        let name = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(name)
    }

    fn bytes(&mut self, size: u32) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(size as usize).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::abi::UNIQUE_RESEND;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(40 + body.len()).unwrap();
        let header =
            InHeader { len, opcode, unique: 2, nodeid: 1, uid: 3, gid: 4, pid: 5, ..InHeader::default() };
        [header.as_bytes(), body].concat()
    }

    fn operation(opcode: u32, body: &[u8]) -> Operation<'_> {
        match parse(opcode, body, capability::SETXATTR_EXT) {
            Ok(Message::Operation(operation)) => operation,
            other => panic!("{other:?}"),
        }
    }

    /// One body for each opcode that has one.
    fn bodies() -> Vec<(u32, Vec<u8>)> {
        let write = WriteIn { offset: 9, size: 3, ..WriteIn::default() };
        let set = SetXattrIn { size: 2, flags: 1 };
        let extension = SetXattrExtension { set_flags: SETXATTR_KILL_SGID, padding: 0 };
        vec![
            (opcode::LOOKUP, b"name\0".to_vec()),
            (opcode::SETATTR, vec![1; 88]),
            (opcode::SYMLINK, b"name\0target\0".to_vec()),
            (opcode::MKNOD, [&[1; 16], b"name\0".as_slice()].concat()),
            (opcode::RENAME2, [&[1; 16], b"a\0b\0".as_slice()].concat()),
            (opcode::LINK, [&[1; 8], b"a\0".as_slice()].concat()),
            (opcode::CREATE, [&[1; 16], b"a\0".as_slice()].concat()),
            (opcode::WRITE, [write.as_bytes(), b"abc"].concat()),
            (opcode::SETXATTR, [set.as_bytes(), extension.as_bytes(), b"user.a\0vv"].concat()),
            (opcode::GETXATTR, [&[0; 8], b"user.a\0".as_slice()].concat()),
            (opcode::SETLKW, vec![1; 48]),
            (opcode::RELEASE, vec![1; 24]),
            (opcode::FALLOCATE, vec![1; 32]),
            (opcode::INTERRUPT, vec![1; 8]),
        ]
    }

    #[test]
    fn real_requests_are_understood() {
        assert_eq!(operation(opcode::LOOKUP, b"name\0"), Operation::Lookup { name: b"name" });
        assert_eq!(
            operation(opcode::SYMLINK, b"name\0target\0"),
            Operation::Symlink { name: b"name", target: b"target" }
        );
        let renamed = [7u64.as_bytes(), &[4, 0, 0, 0, 0, 0, 0, 0], b"a\0b\0"].concat();
        assert_eq!(
            operation(opcode::RENAME2, &renamed),
            Operation::Rename { name: b"a", new_parent: 7, new_name: b"b", flags: 4 }
        );
        let all = bodies();
        let (_, body) = all.iter().find(|(opcode, _)| *opcode == opcode::WRITE).unwrap();
        let Operation::Write { arguments, bytes } = operation(opcode::WRITE, body) else { panic!("a write") };
        assert_eq!((arguments.offset, bytes), (9, b"abc".as_slice()));
        let (_, body) = all.iter().find(|(opcode, _)| *opcode == opcode::SETXATTR).unwrap();
        let set = Operation::SetXattr { name: b"user.a", value: b"vv", flags: 1, kill_sgid: true };
        assert_eq!(operation(opcode::SETXATTR, body), set);
        // Kernels before 5.14.
        let short = [&body[..8], b"user.a\0vv"].concat();
        let set = Operation::SetXattr { name: b"user.a", value: b"vv", flags: 1, kill_sgid: false };
        assert_eq!(parse(opcode::SETXATTR, &short, 0), Ok(Message::Operation(set)));
        assert_eq!(parse(opcode::INTERRUPT, 8u64.as_bytes(), 0), Ok(Message::Interrupt { unique: 8 }));
        assert_eq!(operation(99, &[]), Operation::Unknown { opcode: 99 });
    }

    #[test]
    fn a_request_that_was_cut_off_is_malformed_at_every_length() {
        for (opcode, body) in bodies() {
            assert!(parse(opcode, &body, capability::SETXATTR_EXT).is_ok(), "opcode {opcode}");
            for len in 0..body.len() {
                let cut = parse(opcode, &body[..len], capability::SETXATTR_EXT);
                assert_eq!(cut, Err(Malformed), "opcode {opcode}, {len} bytes");
            }
        }
    }

    #[test]
    fn a_header_must_tell_the_true_length() {
        let good = message(opcode::LOOKUP, b"name\0");
        assert!(split(&good).is_ok());
        assert_eq!(split(&good[..good.len() - 1]), Err(Malformed));
        assert_eq!(split(&good[..39]), Err(Malformed));
    }

    #[test]
    fn a_request_that_is_sent_again_keeps_its_number() {
        let interrupts = Arc::new(Interrupts::default());
        let header = InHeader { unique: 8 | UNIQUE_RESEND, ..InHeader::default() };
        let request = Request::new(header, Operation::GetAttr, &interrupts);
        assert_eq!((request.unique(), request.is_resent()), (8, true));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(opcode in 0u32..60, bytes: Vec<u8>) {
            if let Ok((header, body)) = split(&bytes) {
                let _ = parse(header.opcode, body, 0);
            }
            let _ = parse(opcode, &bytes, capability::SETXATTR_EXT);
        }

        #[test]
        fn no_change_of_a_real_request_makes_it_panic(
            which in 0..14usize, at in 0..100usize, to: u8, cut in 0..100usize,
        ) {
            let (opcode, mut body) = bodies().swap_remove(which);
            let at = at % body.len();
            body[at] = to;
            body.truncate(body.len() - cut % body.len());
            let _ = parse(opcode, &body, capability::SETXATTR_EXT);
        }
    }
}
