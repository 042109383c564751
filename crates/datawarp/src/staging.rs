//! Asking for stages, and revoking and activating those that wait for the job's end.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use api::mounted::absolute;
use model::Ino;
use model::phase::{Direction, StageKind};
use rustix::io::Errno;
use wire::control::{
    Change, Place, StageChange, StageCounts, StageDue, StagePair, StageRequest, StageScope, StageTickets,
};

use crate::buffer::{InBuffer, post, post_and_tell};
use crate::error::Error;
use crate::foreign::{optional_path, path, paths, result};

/// The values of `enum dw_stage_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Stage(StageDue),
    Deferred(Change),
}

impl Type {
    fn of(number: c_int) -> Result<Type, Error> {
        Ok(match number {
            0 => Type::Stage(StageDue::Now),
            1 => Type::Stage(StageDue::AtJobEnd),
            2 => Type::Deferred(Change::Revoke),
            3 => Type::Deferred(Change::Activate),
            _ => return Err(Errno::INVAL.into()),
        })
    }
}

/// Stages a PFS file into the buffer.
///
/// # Safety
/// C strings, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_stage_file_in(
    dw_file_path: *const c_char,
    pfs_file_path: *const c_char,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise, for both.
        let (buffer, pfs) = unsafe { (path(dw_file_path)?, path(pfs_file_path)?) };
        let found = InBuffer::find(&buffer)?;
        let pair = pair(found.path, &pfs, &pfs)?;
        stage(found.mounted.place(), Direction::In, StageKind::File, StageDue::Now, vec![pair])
    })
}

/// Stages what is in a PFS folder into a folder of the buffer, which must be there.
///
/// # Safety
/// C strings, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_stage_directory_in(
    dw_directory: *const c_char,
    pfs_directory: *const c_char,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise, for both.
        let (buffer, pfs) = unsafe { (path(dw_directory)?, path(pfs_directory)?) };
        let found = InBuffer::folder(&buffer)?;
        let pair = pair(found.path, &pfs, &pfs)?;
        stage(found.mounted.place(), Direction::In, StageKind::Directory, StageDue::Now, vec![pair])
    })
}

/// Stages PFS files into a folder of the buffer, which must be there.
///
/// # Safety
/// A C string and a list of them that NULL ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_stage_list_in(
    dw_directory: *const c_char,
    pfs_list: *const *const c_char,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise, for both.
        let (folder, files) = unsafe { (path(dw_directory)?, paths(pfs_list)?) };
        let found = InBuffer::folder(&folder)?;
        let to = |file: &PathBuf| pair(below(&found.path, name(file)?)?, file, file);
        let pairs = files.iter().map(to).collect::<Result<Vec<_>, _>>()?;
        stage(found.mounted.place(), Direction::In, StageKind::File, StageDue::Now, pairs)
    })
}

/// Stages a file of the buffer out.
///
/// # Safety
/// C strings, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_stage_file_out(
    dw_file_path: *const c_char,
    pfs_file_path: *const c_char,
    stage_type: c_int,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise, for both.
        let (buffer, pfs) = unsafe { (path(dw_file_path)?, optional_path(pfs_file_path)?) };
        match Type::of(stage_type)? {
            Type::Stage(due) => {
                let found = InBuffer::file(&buffer)?;
                let pair = pair(found.path, &pfs.ok_or(Errno::INVAL)?, &buffer)?;
                let pair = StagePair { ino: found.mounted.inode(&buffer).map(Ino::from), ..pair };
                stage(found.mounted.place(), Direction::Out, StageKind::File, due, vec![pair])
            }
            Type::Deferred(change) => {
                let found = InBuffer::find(&buffer)?;
                alter(found.mounted.place(), StageScope::Files(vec![found.path]), change)
            }
        }
    })
}

/// Stages what is in a folder of the buffer out.
///
/// # Safety
/// C strings, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_stage_directory_out(
    dw_directory: *const c_char,
    pfs_directory: *const c_char,
    stage_type: c_int,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise, for both.
        let (buffer, pfs) = unsafe { (path(dw_directory)?, optional_path(pfs_directory)?) };
        match Type::of(stage_type)? {
            Type::Stage(due) => {
                let found = InBuffer::folder(&buffer)?;
                let pair = pair(found.path, &pfs.ok_or(Errno::INVAL)?, &buffer)?;
                let pair = StagePair { ino: found.mounted.inode(&buffer).map(Ino::from), ..pair };
                stage(found.mounted.place(), Direction::Out, StageKind::Directory, due, vec![pair])
            }
            Type::Deferred(change) => {
                let found = InBuffer::find(&buffer)?;
                alter(found.mounted.place(), StageScope::Directory(found.path), change)
            }
        }
    })
}

/// Stages files of the buffer out to a PFS folder.
///
/// # Safety
/// A list of C strings that NULL ends and a C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_stage_list_out(
    dw_list: *const *const c_char,
    pfs_directory: *const c_char,
    stage_type: c_int,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise, for both.
        let (files, pfs) = unsafe { (paths(dw_list)?, optional_path(pfs_directory)?) };
        match Type::of(stage_type)? {
            Type::Stage(due) => {
                let pfs = pfs.ok_or(Errno::INVAL)?;
                let (mounted, buffer) = InBuffer::of_list(&files, InBuffer::file)?;
                let to = |(file, buffer): (&PathBuf, String)| {
                    let pair = pair(buffer, &pfs.join(name(file)?), file)?;
                    Ok::<_, Error>(StagePair { ino: mounted.inode(file).map(Ino::from), ..pair })
                };
                let pairs = files.iter().zip(buffer).map(to).collect::<Result<Vec<_>, _>>()?;
                stage(mounted.place(), Direction::Out, StageKind::File, due, pairs)
            }
            Type::Deferred(change) => {
                let (mounted, buffer) = InBuffer::of_list(&files, InBuffer::find)?;
                alter(mounted.place(), StageScope::Files(buffer), change)
            }
        }
    })
}

/// Both sides of a stage of `source`.
fn pair(buffer: String, pfs: &Path, source: &Path) -> Result<StagePair, Error> {
    let size_hint = source.metadata().ok().map(|file| file.len());
    Ok(StagePair { buffer, pfs: absolute(pfs)?, size_hint, ino: None })
}

/// The last part of a file's path.
fn name(file: &Path) -> Result<&str, Error> {
    let name = file.file_name().ok_or(Errno::ISDIR)?;
    Ok(name.to_str().ok_or(Errno::ILSEQ)?)
}

fn below(folder: &str, name: &str) -> Result<String, Error> {
    Ok(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

fn stage(
    place: Place,
    direction: Direction,
    kind: StageKind,
    due: StageDue,
    pairs: Vec<StagePair>,
) -> Result<(), Error> {
    post("", &StageRequest { place, direction, kind, due, pairs }).map(|_: StageTickets| ())
}

/// Changes stages; there must be one to change, as DataWarp had it. Where the reply to that was lost, there may be none
/// any more: it is not what the program asked in vain.
pub(crate) fn alter(place: Place, scope: StageScope, change: Change) -> Result<(), Error> {
    let asked: (StageCounts, bool) = post_and_tell("/change", &StageChange { place, scope, change })?;
    judged(asked)
}

/// How many were changed, and whether some may have been before.
fn judged((changed, may_be_done): (StageCounts, bool)) -> Result<(), Error> {
    if changed.is_empty() && !may_be_done { Err(Errno::INVAL.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_nothing_to_change_is_einval_unless_a_lost_reply_may_have_said_that_it_is_done() {
        let (none, one) = (StageCounts::default(), StageCounts { pending: 1, ..StageCounts::default() });
        assert_eq!(judged((none, false)).unwrap_err().errno(), Errno::INVAL);
        assert!(judged((none, true)).is_ok() && judged((one, false)).is_ok());
    }
}
