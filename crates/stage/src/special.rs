//! Entries without contents of their own: symbolic links, pipes, sockets, device nodes, further names of a file.

use rustix::io::Errno;
use wire::data::FileKind;

use crate::context::Context;
use crate::entry::Entry;
use crate::fault::{Fault, Tried};
use crate::metadata;
use crate::part::{Part, make_afresh};
use crate::tree::{Found, New};

/// Makes an entry like the source's. A symbolic link keeps its text, wherever that leads.
pub(crate) fn stage(context: &Context, entry: &Entry) -> Result<(), Fault> {
    let kind = entry.source.attr.kind;
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    if is_device && !context.sides.identity.may_make_devices() {
        return Err(Errno::PERM).tried(&*context.sides.target, &entry.target, "make device node");
    }
    context.retrying(|| {
        let workplace = context.workplace(&entry.target);
        let made = if kind == FileKind::Symlink {
            let source = &*context.sides.source;
            let text = source.read_link(&entry.source).tried(source, &entry.source.path, "read link")?;
            let make = || context.sides.target.make(&workplace, New::Symlink(&text));
            make_afresh(context, (&workplace, &entry.target), "make symbolic link", make)?
        } else {
            let new = New::Node { kind, rdev: if is_device { entry.source.attr.rdev } else { 0 } };
            make_afresh(context, (&workplace, &entry.target), "make node", || {
                context.sides.target.make(&workplace, new)
            })?
        };
        let part = Part::new(context, workplace);
        metadata::keep(context, &entry.source, &made, &entry.target)?;
        part.publish(&entry.target)
    })
}

/// Makes the entry one more name of `first`, an entry of the target.
pub(crate) fn link(context: &Context, entry: &Entry, first: &Found) -> Result<(), Fault> {
    if let Ok(there) = context.sides.target.find(&entry.target)
        && (there.device, there.attr.ino) == (first.device, first.attr.ino)
    {
        return Ok(());
    }
    context.retrying(|| {
        let workplace = context.workplace(&entry.target);
        let make = || context.sides.target.link(first, &workplace);
        make_afresh(context, (&workplace, &entry.target), "make hard link", make)?;
        Part::new(context, workplace).publish(&entry.target)
    })
}
