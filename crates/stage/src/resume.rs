//! Where the copy of a file begins: afresh, or with the blocks that an earlier run wrote before it was killed.
//!
//! **Invariant:** blocks are believed only while the source is the version that it was when they were copied, and only
//! once: should the whole then not compare, the next attempt begins afresh.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wire::data::FileKind;

use crate::blocks::UNIT_BYTES;
use crate::content::Opened;
use crate::context::Context;
use crate::fault::Fault;
use crate::journal::Unfinished;
use crate::part::{self, Part};
use crate::tree::{Found, TargetFile};
use crate::version::Version;

/// A file that is being made.
pub(crate) struct Begun<'a> {
    /// It, under its working name.
    pub(crate) made: Found,
    pub(crate) part: Part<'a>,
    pub(crate) target: Opened<dyn TargetFile>,
    /// CRC32C of the blocks that are there already, by their number.
    pub(crate) blocks: BTreeMap<usize, u32>,
}

/// Begins the copy of `source`, a file as it is now that becomes `name`, or goes on with one.
pub(crate) fn begin<'a>(context: &'a Context, name: &Path, source: &Found) -> Result<Begun<'a>, Fault> {
    if let Some(unfinished) = context.journal.take_unfinished(name) {
        let place = unfinished.place.clone();
        if let Some(begun) = go_on(context, name, source, unfinished) {
            return Ok(begun);
        }
        // It is of no use, and may be large.
        context.give_up(place);
    }
    let create = |place: &Path| context.sides.target.create(place);
    let ((made, file), part) = part::make(context, (context.workplace(name), name), "make file", create)?;
    if source.attr.size > UNIT_BYTES {
        context.journal.begin(name, part.path(), &source.attr);
    }
    Ok(Begun { made, part, target: opened(context, name, file), blocks: BTreeMap::new() })
}

fn go_on<'a>(context: &'a Context, name: &Path, source: &Found, unfinished: Unfinished) -> Option<Begun<'a>> {
    if unfinished.version != Some(Version::of(&source.attr)) {
        return None;
    }
    let made = context.sides.target.find(&unfinished.place).ok()?;
    // Nobody but us may have changed it.
    let is_ours = made.attr.kind == FileKind::Regular
        && made.attr.nlink == 1
        && context.sides.identity.may_give_to_user(made.attr.uid);
    let file = is_ours.then(|| context.sides.target.reopen(&made).ok())??;
    let done = unfinished.blocks.len();
    tracing::info!("stage {}: go on with {}: {done} MiB are there", context.id, name.display());
    let part = Part::of_before(context, unfinished.place);
    Some(Begun { made, part, target: opened(context, name, file), blocks: unfinished.blocks })
}

/// The file at its working name; faults name the file that it is to become.
fn opened(context: &Context, name: &Path, file: Box<dyn TargetFile>) -> Opened<dyn TargetFile> {
    Opened { tree: context.sides.target.clone(), path: name.to_owned(), file: Arc::from(file), sparse: false }
}
