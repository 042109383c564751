//! What an entry has besides its contents: owner, extended attributes, mode and times.
//!
//! The mode must be kept; owner, group, extended attributes and times are kept where the target allows it, and what is
//! not is remarked in the journal, or told who copies entry by entry.

use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use wire::data::{FileKind, SetAttr};

use crate::context::Context;
use crate::fault::{Fault, Tried};
use crate::tree::{self, Found, Xattr};

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// Gives `made`, an entry of the target that is just made, the metadata of `source`, as [`keep_with`] does.
pub(crate) fn keep(context: &Context, source: &Found, made: &Found, name: &Path) -> Result<(), Fault> {
    let is_link = source.attr.kind == FileKind::Symlink;
    let xattrs = if is_link { Ok(Vec::new()) } else { context.sides.source.xattrs(source) };
    keep_with(context, source, xattrs, made, name)
}

/// Gives `made`, an entry of the target that is just made, the metadata of `source`, with these extended attributes.
/// Faults and remarks call it `name`, which it is to become.
///
/// The order matters: a change of owner clears mode bits; extended attributes need a writable file; times come last,
/// so that nothing changes them again.
pub(crate) fn keep_with(
    context: &Context,
    source: &Found,
    xattrs: tree::Result<Vec<Xattr>>,
    made: &Found,
    name: &Path,
) -> Result<(), Fault> {
    let kept = keep_owner(context, source, made, name);
    let is_link = source.attr.kind == FileKind::Symlink;
    if !is_link {
        keep_xattrs(context, source, xattrs, made, name)?;
    }
    let mode = mode_for(source, kept);
    let change = SetAttr {
        mode: (!is_link).then_some(mode),
        atime: Some(source.attr.atime),
        mtime: Some(source.attr.mtime),
        ..SetAttr::default()
    };
    let target = &*context.sides.target;
    target.set(made, &change).tried(target, name, "set mode and times of")
}

/// Which of the two is the source's now.
#[derive(Clone, Copy)]
struct KeptOwner {
    user: bool,
    group: bool,
}

fn keep_owner(context: &Context, source: &Found, made: &Found, name: &Path) -> KeptOwner {
    let (from, to) = (&source.attr, &made.attr);
    let user = from.uid == to.uid || context.sides.identity.may_give_to_user(from.uid);
    let group = from.gid == to.gid || context.sides.identity.may_give_to_group(from.gid);
    let change = SetAttr {
        uid: (user && from.uid != to.uid).then_some(from.uid),
        gid: (group && from.gid != to.gid).then_some(from.gid),
        ..SetAttr::default()
    };
    let kept = if change == SetAttr::default() || context.sides.target.set(made, &change).is_ok() {
        KeptOwner { user, group }
    } else {
        KeptOwner { user: from.uid == to.uid, group: from.gid == to.gid }
    };
    if !kept.user || !kept.group {
        let text = format!("owner {}:{} cannot be kept", from.uid, from.gid);
        // Once is enough: it is the same for a whole tree.
        if context.shared.left_out.is_some() {
            leave_out(context, name, text);
        } else if !context.shared.owner_remarked.swap(true, Ordering::Relaxed) {
            leave_out(context, name, format!("{text}, here and perhaps elsewhere"));
        }
    }
    kept
}

/// The mode to set: without set-user-id if the user is another, without set-group-id if the group is, so that nobody
/// lends rights that the source did not.
fn mode_for(source: &Found, kept: KeptOwner) -> u32 {
    let mut mode = source.attr.mode;
    if !kept.user {
        mode &= !SET_USER_ID;
    }
    // On a folder the bit only says which group new files get.
    if !kept.group && !source.is_folder() {
        mode &= !SET_GROUP_ID;
    }
    mode
}

/// Takes over the extended attributes. What the target cannot hold is remarked.
fn keep_xattrs(
    context: &Context,
    source: &Found,
    xattrs: tree::Result<Vec<Xattr>>,
    made: &Found,
    name: &Path,
) -> Result<(), Fault> {
    let xattrs = match xattrs {
        Err(Errno::NOTSUP | Errno::NODATA) => Vec::new(),
        xattrs => xattrs.tried(&*context.sides.source, &source.path, "read extended attributes of")?,
    };
    if context.shared.left_out.is_some() {
        // What is not known is not told.
        for unkept in context.sides.source.unkept_xattrs(source).unwrap_or_default() {
            let attribute = String::from_utf8_lossy(&unkept);
            let text = format!("extended attribute {attribute} is not kept: it is of the node's system");
            leave_out(context, name, text);
        }
    }
    let target = &*context.sides.target;
    let outcome = target.disinherit(made, &xattrs);
    let outcome = outcome.tried(target, name, "take away the access list that its folder handed down to");
    tolerate(context, outcome, name, |why| format!("it has rights that its folder handed down: {why}"))?;
    for xattr in &xattrs {
        let outcome = target.set_xattr(made, xattr).tried(target, name, "set an extended attribute of");
        let attribute = String::from_utf8_lossy(&xattr.0);
        let told = |why: &str| format!("extended attribute {attribute} cannot be kept: {why}");
        tolerate(context, outcome, name, told)?;
    }
    Ok(())
}

/// Gives back a fault that may pass, to be tried again, and that the entry is not there any more; remarks any other.
fn tolerate(
    context: &Context,
    outcome: Result<(), Fault>,
    name: &Path,
    told: impl FnOnce(&str) -> String,
) -> Result<(), Fault> {
    match outcome {
        Err(fault) if fault.may_pass() && !fault.is_no_room() => Err(fault),
        Err(fault) if fault.errno() == Some(Errno::NOENT) => Err(fault),
        Err(fault) => {
            leave_out(context, name, told(&fault.cause.to_string()));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Tells who asks for it what the target does not hold of an entry.
pub(crate) fn leave_out(context: &Context, name: &Path, text: String) {
    match &context.shared.left_out {
        Some(left_out) => {
            let mut left_out = left_out.lock().expect("no thread panics with the lock");
            left_out.entry(name.to_owned()).or_default().push(text);
        }
        None => context.remark(&context.sides.target.show(name), &text),
    }
}
