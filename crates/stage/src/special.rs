//! Entries without contents of their own: symbolic links, pipes, sockets, device nodes, further names of a file.

use std::path::Path;

use rustix::io::Errno;
use wire::data::FileKind;

use crate::context::Context;
use crate::entry::Entry;
use crate::fault::{Fault, Tried};
use crate::metadata;
use crate::part;
use crate::tree::{Found, New};
use crate::version;

/// Makes an entry like the source's. A symbolic link keeps its text, wherever that leads.
pub(crate) fn stage(context: &Context, entry: &Entry) -> Result<(), Fault> {
    let kind = entry.source.attr.kind;
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    if is_device && !context.sides.identity.may_make_devices() {
        return Err(Errno::PERM).tried(&*context.sides.target, &entry.target, "make device node");
    }
    context.retrying(|| {
        let place = (context.workplace(&entry.target), entry.target.as_path());
        let target = &*context.sides.target;
        let ((made, _held), part) = if kind == FileKind::Symlink {
            let source = &*context.sides.source;
            let text = source.read_link(&entry.source).tried(source, &entry.source.path, "read link")?;
            let make = |place: &Path| target.make(place, New::Symlink(&text));
            part::make(context, place, "make symbolic link", make)?
        } else {
            let new = New::Node { kind, rdev: if is_device { entry.source.attr.rdev } else { 0 } };
            part::make(context, place, "make node", |place| target.make(place, new))?
        };
        metadata::keep(context, &entry.source, &made, &entry.target)?;
        part.publish(&entry.folder.target, &made, &entry.target).map(drop)
    })
}

/// Makes the entry one more name of `first`, an entry of the target.
pub(crate) fn link(context: &Context, entry: &Entry, first: &Found) -> Result<(), Fault> {
    if let Ok(there) = context.sides.target.find(&entry.target)
        && version::is_same(&there, first)
    {
        return Ok(());
    }
    context.retrying(|| {
        let place = (context.workplace(&entry.target), entry.target.as_path());
        let link = |place: &Path| context.sides.target.link(first, place);
        let (_held, part) = part::make(context, place, "make hard link", link)?;
        part.publish(&entry.folder.target, first, &entry.target).map(drop)
    })
}
