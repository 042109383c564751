//! Commits under way: a note of each beside the sessions' folders says where its drafts are, and what they take from
//! their names. It goes with the commit; one that is found with no commit is of one that was killed.
//!
//! ```text
//! TO/.forebay-drain/DRAFT.note := {"places":[{"folder":path,"ino":number,"name":path},...]}     locked (flock)
//! ```
//!
//! `folder` is relative to TO.
//!
//! **Invariant:** what a commit puts beside a name, or takes from it, is noted durably before; the note goes only when
//! nothing of that is left, or somebody was told that its folder is not found.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use disk::below::{Place, Root, by_descriptor};
use model::Ino;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use stage::journal::PathText;
use stage::single::TAKEN_SUFFIX;

use super::moved;
use crate::taken::Taken;

/// The end of a note's name.
const SUFFIX: &str = ".note";

/// Where there are no locks, whoever has noted something as long ago is not there any more.
const AGE_MAX: Duration = Duration::from_secs(60);

/// How long somebody may look at a note.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// What a commit works at.
pub(super) struct UnderWay {
    file: PathBuf,
    /// Locked.
    _held: File,
}

#[derive(Default, Serialize, Deserialize)]
struct Note {
    places: Vec<At>,
}

impl Note {
    fn write(&self, file: &mut File) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        file.rewind()?;
        file.write_all(&text)?;
        // What was cut off would be of a commit that had not begun.
        file.set_len(text.len() as u64)?;
        file.sync_all()
    }
}

/// A name that is to be given to a draft.
#[derive(Serialize, Deserialize)]
struct At {
    folder: PathText,
    ino: Ino,
    name: PathText,
}

impl UnderWay {
    /// Notes in `folder` that `draft` is made beside these names, relative to the folder above it, and gets them.
    pub(super) fn begin(folder: &Path, draft: &OsStr, names: &[(&Place, &Path)]) -> io::Result<UnderWay> {
        let file = folder.join(format!("{}{SUFFIX}", draft.to_string_lossy()));
        let mut held = locked(&file)?;
        let at = |(place, path): &(&Place, &Path)| {
            let folder = path.parent().unwrap_or(Path::new("")).into();
            Ok(At { folder, ino: ino(place)?, name: Path::new(&place.name).into() })
        };
        let places = names.iter().map(at).collect::<io::Result<Vec<At>>>()?;
        Note { places }.write(&mut held)?;
        disk::sync_names(&file)?;
        Ok(UnderWay { file, _held: held })
    }

    /// Nothing of it is left.
    pub(super) fn end(self) -> io::Result<()> {
        disk::remove_file(&self.file)
    }
}

/// The file, made if it is missing, for this process alone: also where somebody removes it meanwhile.
fn locked(path: &Path) -> io::Result<File> {
    let root = Root::at(path.parent().unwrap_or(path));
    let begun = SystemTime::now();
    loop {
        let file = root.open_file(path, OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o666))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed().is_ok_and(|it| it > LOOK_LIMIT) => {
                return Err(io::Error::other(format!("{} is held by another commit", path.display())));
            }
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(20)),
            // It takes no locks.
            _ if is_at(&file, path)? => return Ok(file),
            _ => {}
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = disk::if_there(fs::symlink_metadata(path))?;
    Ok(there.map(|there| there.ino()) == Some(file.metadata()?.ino()))
}

fn ino(place: &Place) -> io::Result<Ino> {
    Ok(Ino(rustix::fs::fstat(&place.folder)?.st_ino))
}

/// Decides about what commits have left that were killed, as noted in `folder`.
///
/// # Errors
/// It cannot be looked at.
pub(crate) fn settle(folder: &Path, root: &Root, taken: &Taken) -> io::Result<()> {
    let Some(entries) = disk::if_there(fs::read_dir(folder))? else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if let Some(draft) = name.strip_suffix(SUFFIX)
            && let Some(mut file) = disk::if_there(abandoned(&path))?.flatten()
        {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            // One that was cut off is of a commit that had not begun.
            let mut note: Note = serde_json::from_slice(&text).unwrap_or_default();
            let mut is_settled = true;
            for at in &mut note.places {
                is_settled &= settle_at(at, draft, root, taken)?;
            }
            if is_settled {
                disk::remove_file(&path)?;
            } else if serde_json::to_vec(&note)? != text {
                note.write(&mut file)?;
            }
        }
    }
    Ok(())
}

/// The note, unless its commit is under way.
fn abandoned(path: &Path) -> io::Result<Option<File>> {
    let root = Root::at(path.parent().unwrap_or(path));
    let file = match root.open_file(path, OFlags::RDWR, Mode::empty()) {
        // Another user's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        file => {
            file.map_err(|error| io::Error::new(error.kind(), format!("open {}: {error}", path.display())))?
        }
    };
    let is_free = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => true,
        Err(Errno::WOULDBLOCK) => false,
        Err(_) => file.metadata()?.modified()?.elapsed().is_ok_and(|age| age > AGE_MAX),
    };
    Ok((is_free && is_at(&file, path)?).then_some(file))
}

/// Whether nothing is left there, or somebody was told that nobody can tell.
fn settle_at(at: &mut At, draft: &str, root: &Root, taken: &Taken) -> io::Result<bool> {
    let (folder, name) = (root.path().join(at.folder.to_path()), at.name.to_path());
    let place = match root.reach(&folder.join(draft)) {
        Ok(place) if ino(&place)? == at.ino => place,
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {
            // What is known to lie in it is found wherever it is.
            if let Some(now) = taken.folder_of(at.ino, draft) {
                at.folder = now.as_path().into();
                return Ok(false);
            }
            let (now, is_sure) = moved::find(root.path(), at.ino);
            let Some(now) = now else { return Ok(taken.miss(&folder, at.ino, is_sure) && is_sure) };
            at.folder = now.as_path().into();
            return settle_at(at, draft, root, taken);
        }
        Err(errno) => return Err(errno.into()),
    };
    for entry in fs::read_dir(by_descriptor(&place.folder))? {
        let found = entry?.file_name();
        let text = found.to_string_lossy();
        if text == draft {
            unlinkat(place.folder.as_fd(), &found, AtFlags::empty())?;
        } else if text.starts_with(draft) && text.ends_with(TAKEN_SUFFIX) {
            taken.settle_known(&folder.join(&found), &folder.join(&name))?;
        }
    }
    Ok(taken.folder_of(at.ino, draft).is_none())
}
