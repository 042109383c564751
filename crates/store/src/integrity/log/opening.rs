//! A log of seals is opened: made where there is none, and taken for lost where it is not what the mark beside it says.
//!
//! **Invariant:** what says that seals were lost is durable before the log that lost them is written anew.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use disk::sync_names;

use super::end::End;
use super::head::Head;
use super::mark::{self, Found, Mark, Marked};
use super::{Place, SealLog};

/// Seals that were in a log, or may have been.
#[derive(Debug)]
pub struct Loss {
    /// What was found.
    pub why: String,
    /// There was a log for certain.
    pub certain: bool,
}

impl SealLog {
    /// Opens the log at `place`, making it if there is none. Where it lacks what was synced, `lost` is told first.
    ///
    /// # Errors
    /// The errno of what failed; it is another's.
    pub fn open(place: Place, lost: impl FnOnce(Loss) -> io::Result<()>) -> io::Result<SealLog> {
        let Place { path, owner } = place;
        if let Some(folder) = path.parent() {
            disk::make_folder(folder)?;
        }
        let found = mark::find(&path)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let file = Arc::new(file);
        let head = Head::read(&file)?;
        check_owner(&path, &owner, head.as_ref())?;
        let mut end = End::of(file.clone(), owner);
        let mut index = BTreeMap::new();
        let mut is_whole = file.metadata()?.len() == 0;
        if let Some((head, begins)) = &head {
            end.generation = head.generation;
            is_whole = end.replay(&mut index, *begins)?;
        }
        let loss = loss(&found, head.as_ref().map(|(head, _)| head), &end);
        if let Some(loss) = loss {
            lost(loss)?;
            is_whole = false;
        } else if !is_whole {
            tracing::error!(
                path = %path.display(), offset = end.length, objects = index.len(),
                "the end of a log of checksums cannot be read after a crash: they are made anew"
            );
        }
        if is_whole && head.is_some() {
            go_on(&path, &mut end, found.marked())?;
        } else {
            index.clear();
            begin(&path, &mut end, found.marked().generation)?;
        }
        let log = SealLog { path, end: Mutex::new(end), index: RwLock::new(index) };
        if log.end().generation == 0 {
            // The first version did not say whose it was.
            log.rewrite(&mut log.end())?;
        }
        Ok(log)
    }
}

/// Nobody checks objects by the seals of others.
fn check_owner(path: &Path, owner: &str, head: Option<&(Head, u64)>) -> io::Result<()> {
    match head {
        Some((head, _)) if !head.owner.is_empty() && head.owner != owner => {
            let message = format!(
                "{} is the log of checksums of {}, not of {owner}: move it, and the mark beside it, to where they \
                 belong, and start the node again",
                path.display(),
                head.owner
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
        _ => Ok(()),
    }
}

/// What a log lacks that was read up to where `end` is.
fn loss(found: &Found, head: Option<&Head>, end: &End) -> Option<Loss> {
    let certain = |why: String| Some(Loss { why, certain: true });
    match (found, head) {
        (Found::None, None) => Some(Loss { why: "there is no log of checksums".into(), certain: false }),
        // Of the first version, which had no marks.
        (Found::None, Some(head)) if head.generation == 0 => None,
        (Found::None, Some(_)) => certain("the mark beside the log of checksums is gone".into()),
        (Found::Damaged, _) => certain("the mark beside the log of checksums is damaged".into()),
        // It was about to be made.
        (Found::Marked(marked), _) if marked.generation == 0 => None,
        (Found::Marked(_), None) => {
            certain("the log of checksums is gone, empty, or has a damaged head".into())
        }
        (Found::Marked(marked), Some(head)) if head.generation < marked.generation => {
            certain("the log of checksums is an old one".into())
        }
        (Found::Marked(marked), Some(head)) => {
            let is_short = head.generation == marked.generation && end.length < marked.synced;
            let (length, synced) = (end.length, marked.synced);
            let why = || format!("the log of checksums is damaged or ends at byte {length} of {synced}");
            is_short.then(why).and_then(certain)
        }
    }
}

/// After the last entry that is whole.
fn go_on(path: &Path, end: &mut End, marked: Marked) -> io::Result<()> {
    end.mark = Some(Arc::new(Mark::make(path, marked)?));
    if end.length < end.file.metadata()?.len() {
        end.file.set_len(end.length)?;
        end.reserved = end.length;
    }
    Ok(())
}

/// A log without entries, from its mark on, which says that there is none until there is.
fn begin(path: &Path, end: &mut End, before: u64) -> io::Result<()> {
    let mark = Mark::make(path, Marked::default())?;
    let file: &File = &end.file;
    file.set_len(0)?;
    let head = Head { generation: before.max(end.generation) + 1, owner: end.owner.clone() };
    let bytes = head.bytes();
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    sync_names(path)?;
    let generation = head.generation;
    mark.note(Marked { generation, synced: bytes.len() as u64 });
    let fresh = End::of(end.file.clone(), std::mem::take(&mut end.owner));
    let length = bytes.len() as u64;
    *end = End { generation, length, synced: length, mark: Some(Arc::new(mark)), ..fresh };
    Ok(())
}
