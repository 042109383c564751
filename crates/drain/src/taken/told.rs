//! What is said of what is left.

use std::path::{Path, PathBuf};

use model::Ino;
use rustix::io::Errno;
use stage::single::TAKEN_SUFFIX;

use super::{Key, Left, Taken};
use crate::status::Trouble;

/// A folder in which something lay, and that is not found.
pub(super) struct Missed {
    path: PathBuf,
    ino: Ino,
    /// It was looked for everywhere.
    is_sure: bool,
    /// Whoever waits has been told.
    is_told: bool,
}

impl Taken {
    /// Where the folder of this number is now, if something is left in it whose name begins like this.
    pub(crate) fn folder_of(&self, ino: Ino, begin: &str) -> Option<PathBuf> {
        let left = self.lock();
        let is_it = |(_, number, name): &Key| *number == ino.0 && name.to_string_lossy().starts_with(begin);
        let (_, found) = left.iter().find(|(key, _)| is_it(key))?;
        self.path_of(&found.folder, &found.path).parent().map(Path::to_owned)
    }

    /// Takes note that the folder `path`, in which something lay, is not found. Whether whoever waits has been told.
    pub(crate) fn miss(&self, path: &Path, ino: Ino, is_sure: bool) -> bool {
        let mut missed = self.missed.lock().expect("no thread panics with the lock");
        let known = missed.iter().find(|other| (&*other.path, other.ino) == (path, ino));
        let is_told = known.is_some_and(|known| known.is_told);
        if known.is_none() {
            missed.push(Missed { path: path.to_owned(), ino, is_sure, is_told });
        }
        is_told
    }

    /// The folders in which something is left, or may be.
    pub(crate) fn folders(&self) -> Vec<(PathBuf, Ino)> {
        let missed = self.missed.lock().expect("no thread panics with the lock");
        let open = missed.iter().filter(|it| !(it.is_sure && it.is_told));
        let missed = open.map(|it| (it.path.clone(), it.ino));
        let folder = |(key, left): (&Key, &Left)| {
            let path = self.path_of(&left.folder, &left.path);
            (path.parent().unwrap_or(&path).to_owned(), Ino(key.1))
        };
        let mut folders: Vec<_> = self.lock().iter().map(folder).chain(missed).collect();
        folders.sort_unstable();
        folders.dedup();
        folders
    }

    /// What is left, after another try to give it back; once, which folders are not found in which something was.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        // What could not be looked at is left.
        let _ = self.settle_again(|_| true);
        let mut troubles: Vec<Trouble> =
            self.lock().values().map(|left| trouble(&left.path, left.name.as_deref())).collect();
        let mut missed = self.missed.lock().expect("no thread panics with the lock");
        troubles.extend(missed.iter().filter(|it| !it.is_told).map(|it| not_found(&it.path)));
        missed.iter_mut().for_each(|it| it.is_told = true);
        troubles
    }
}

fn trouble(path: &Path, name: Option<&Path>) -> Trouble {
    let name = name.map_or_else(|| "a file of the job".to_owned(), |name| name.display().to_string());
    Trouble {
        path: path.display().to_string(),
        errno: Errno::EXIST.raw_os_error(),
        message: format!(
            "{} is somebody's: it came to the name of {name} while that was replaced or removed, and could not get \
             its name back",
            path.display()
        ),
        advice: "move it to where it belongs, then wait again".to_owned(),
    }
}

/// What to do about a folder in which something was and that is not where it was.
fn not_found(folder: &Path) -> Trouble {
    Trouble {
        path: folder.display().to_string(),
        errno: Errno::NOENT.raw_os_error(),
        message: format!(
            "a file of somebody's lay in {}, under a name `.*{TAKEN_SUFFIX}`, and could not get its name back; that \
             folder was renamed or removed, and is not found",
            folder.display()
        ),
        advice: format!(
            "if it was not removed, look where it is now (find -name '.*{TAKEN_SUFFIX}') and move the file to where \
             it belongs; then wait again: this is said once"
        ),
    }
}
