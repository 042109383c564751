//! Small JSON files that a node keeps for its own restart, and the folders that they are in. Each says its format.
//!
//! **Invariant:** such a file is whole, and one that cannot be read or understood is an error, never "there is none":
//! it stands for somebody's job.

use std::io;
use std::path::{Path, PathBuf};

use daemon::error::site;
use disk::format::{self, UPGRADE};
use kept::{OF_NODES as FORMAT, OnDisk};
use wire::control::{ApiError, ErrorCode};

/// What says in a folder what the folder is for.
pub(crate) const SPEC: &str = "spec.json";

/// Replaces the file `path`, mode 0600: specifications hold keys.
///
/// # Errors
/// The disk's.
pub(crate) fn write(path: &Path, value: &impl OnDisk) -> io::Result<()> {
    disk::replace(path, &kept::encode(value, FORMAT)?)
}

/// Reads the file `path`; `None` where there is none.
///
/// # Errors
/// The disk's, and `InvalidData` for a file that does not parse or that a newer Forebay wrote. They name the file.
pub(crate) fn read<T: OnDisk>(path: &Path) -> io::Result<Option<T>> {
    let Some(bytes) = disk::read(path).map_err(named("read", path))? else { return Ok(None) };
    kept::decode(&bytes, FORMAT).map(Some).map_err(|error| named("understand", path)(error.into()))
}

/// An error that says what was tried on which file.
fn named(tried: &'static str, path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{tried} {}: {error}", path.display()))
}

/// The folders in `parent`, which is made if it is not there, with their specifications, as a former life of the node
/// has left them. What was being removed is removed, and so is what was never finished: a folder with nothing in it but
/// perhaps a specification that was being written. Others without a specification that can be read stay as they are,
/// and are logged.
///
/// # Errors
/// `parent` cannot be read: then nothing is known of any of them.
pub(crate) fn folders<T: OnDisk>(parent: &Path) -> io::Result<Vec<(PathBuf, T)>> {
    std::fs::create_dir_all(parent).map_err(named("make", parent))?;
    let mut all = Vec::new();
    for disk::Found { path, stage } in disk::names(parent).map_err(named("list", parent))? {
        match take_up(&path, stage) {
            Ok(Some(spec)) => all.push((path, spec)),
            Ok(None) => {}
            Err(error) => tracing::error!(
                folder = %path.display(),
                %error,
                "cannot take up what this folder is for; it stays as it is: {} and start the node again",
                if format::is_newer(&error) { UPGRADE } else { "mend it" }
            ),
        }
    }
    Ok(all)
}

fn take_up<T: OnDisk>(folder: &Path, stage: disk::Stage) -> io::Result<Option<T>> {
    match stage {
        disk::Stage::InUse => find(folder),
        _ => disk::discard(folder).map(|()| None),
    }
}

/// The specification in `folder`, which may have been mended since the node started; `None` where there is nothing.
/// What was never finished is removed, as in [`folders`].
///
/// # Errors
/// There is something, and what it is for cannot be told.
pub(crate) fn find<T: OnDisk>(folder: &Path) -> io::Result<Option<T>> {
    if let Some(spec) = read(&folder.join(SPEC))? {
        return Ok(Some(spec));
    }
    // Nothing is begun before the specification is kept. Neither call removes anything else that is there.
    disk::remove_file(&folder.join(SPEC).with_extension("new"))?;
    let emptied = disk::remove_folder(folder);
    emptied.map(|()| None).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{SPEC} is missing, but there are other files beside it ({error})"),
        )
    })
}

/// As [`find`], for a request about `what`: only what is not there may be said to be gone.
///
/// # Errors
/// `not_taken_up`.
pub(crate) fn find_for<T: OnDisk>(what: &str, folder: &Path) -> Result<Option<T>, ApiError> {
    find(folder).map_err(|error| {
        let message = format!("{what} is kept in {}, and cannot be taken up: {error}", folder.display());
        let advice = match format::is_newer(&error) {
            true => format!("{UPGRADE}, start the node again, then repeat the command"),
            false => {
                "mend that file, then repeat the command; or, if nothing of it is in use or needed any more, \
                      remove the folder"
                    .into()
            }
        };
        site(ErrorCode::NotTakenUp, message, advice)
    })
}

/// Removes a folder with its specification and all else, so that a removal that is cut short is not taken for a loss.
///
/// # Errors
/// The disk's; the next start goes on.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let removing = disk::removing(folder);
    disk::discard(&removing)?;
    disk::begin_removal(folder)?;
    // A name that is in the way, and no folder, is taken for "there is nothing" by the calls above.
    if disk::exists(folder)? {
        return Err(named("take out of use", folder)(io::ErrorKind::AlreadyExists.into()));
    }
    disk::discard(&removing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_back_and_a_missing_file_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.json");
        assert_eq!(read::<u32>(&path).unwrap(), None);
        write(&path, &1u32).unwrap();
        write(&path, &2u32).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), Some(2));
    }

    #[test]
    fn only_what_was_never_finished_or_is_being_removed_goes_at_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[(&str, &str)]| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            files.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).unwrap());
        };
        make("whole", &[(SPEC, "7"), ("journal", "x")]);
        make("lost", &[("journal", "x")]);
        make("damaged", &[(SPEC, "{"), ("journal", "x")]);
        make("newer", &[(SPEC, "{\"format\":2}"), ("journal", "x")]);
        make("begun", &[("spec.new", "")]);
        make("removed", &[(SPEC, "7")]);
        disk::begin_removal(&dir.path().join("removed")).unwrap();
        let found = folders::<u32>(dir.path()).unwrap();
        assert_eq!(found, [(dir.path().join("whole"), 7)]);
        let left = disk::names(dir.path()).unwrap();
        let left: Vec<_> = left.iter().filter_map(|found| found.path.file_name()?.to_str()).collect();
        assert_eq!(left, ["damaged", "lost", "newer", "whole"]);
        let refused = find::<u32>(&dir.path().join("newer")).unwrap_err().to_string();
        assert!(refused.contains("newer/spec.json: it has format 2"), "{refused}");
        let refused = find_for::<u32>("stage 1.0", &dir.path().join("newer")).unwrap_err();
        assert!(refused.advice.starts_with("install the Forebay that wrote it"), "{refused:?}");
        assert_eq!(std::fs::read(dir.path().join("newer/spec.json")).unwrap(), b"{\"format\":2}");
        assert!(disk::exists(&dir.path().join("lost/journal")).unwrap());
        remove(&dir.path().join("whole")).unwrap();
        assert!(!disk::exists(&dir.path().join("whole")).unwrap());
    }
}
