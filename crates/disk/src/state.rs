//! Where a user's buffers live on this machine.

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why there is no state folder.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Neither an option nor the environment names one.
    #[error("neither --dir, XDG_STATE_HOME nor HOME says where the buffers live; give --dir FOLDER")]
    Homeless,
    /// It cannot be made or used.
    #[error("use {} as the state folder", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else could put links in the place of what is opened in it.
    #[error(
        "{} belongs to user {uid}, and this runs as user {own}: give --dir a folder of one's own, or chown it",
        path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Whose process this is.
        own: u32,
    },
    /// Somebody else may have put there what would be trusted: specifications, logs, links.
    #[error(
        "anybody may write in {} (mode {mode:o}): give --dir, or state_dir, one where nobody else can make files",
        path.display()
    )]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// The state folder: `dir`, else `$XDG_STATE_HOME/forebay`, else `~/.local/state/forebay`. Made if missing, with mode
/// 0700. It must belong to the user whose process this is, and not be one where anybody may write. The path that comes
/// back is absolute and has no symbolic links, so that it compares with the kernel's mount table.
///
/// # Errors
/// See [`StateError`].
pub fn folder(dir: Option<PathBuf>) -> Result<PathBuf, StateError> {
    let path = match dir {
        Some(dir) => dir,
        None => default(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
            .ok_or(StateError::Homeless)?,
    };
    let io = |source| StateError::Io { path: path.clone(), source };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    // Where its file system has failed the folder can neither be made nor looked at: that it is there says nothing.
    made.map_err(|error| io(std::fs::metadata(&path).err().unwrap_or(error)))?;
    ours(path.canonicalize().map_err(io)?)
}

/// What nobody else can have put anything into.
fn ours(path: PathBuf) -> Result<PathBuf, StateError> {
    let found = path.metadata().map_err(|source| StateError::Io { path: path.clone(), source })?;
    let (uid, mode, own) = (found.uid(), found.mode() & 0o7777, rustix::process::geteuid().as_raw());
    match (uid == own, mode & 0o002 == 0) {
        (true, true) => Ok(path),
        (true, false) => Err(StateError::Open { path, mode }),
        (false, _) => Err(StateError::Foreign { path, uid, own }),
    }
}

/// Makes a folder in it, for nobody else: the state folder itself may be open to others.
///
/// # Errors
/// The file system's.
pub fn make_inside(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The same as [`folder`], where it is there and this user's: nothing is made.
pub fn existing(dir: Option<PathBuf>) -> Option<PathBuf> {
    let path = dir.or_else(|| default(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")))?;
    ours(path.canonicalize().ok()?).ok()
}

/// Keeps everybody else out of a state folder that may have been there before, as where flash is mounted: images, logs
/// and journals are in it.
///
/// # Errors
/// [`StateError::Io`].
pub fn close(folder: &Path) -> Result<(), StateError> {
    let io = |source| StateError::Io { path: folder.to_owned(), source };
    let mode = folder.metadata().map_err(io)?.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!(folder = %folder.display(), "the state folder was open to others (mode {mode:o}): it is 700 now");
    set_permissions(folder, Permissions::from_mode(0o700)).map_err(io)
}

/// A relative `XDG_STATE_HOME` is to be ignored (XDG Base Directory Specification).
fn default(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(state_home)
        .or_else(|| absolute(home).map(|home| home.join(".local/state")))
        .map(|base| base.join("forebay"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn the_default_follows_the_xdg_rule() {
        let some = |text: &str| Some(OsString::from(text));
        assert_eq!(default(some("/s"), some("/h")), Some("/s/forebay".into()));
        assert_eq!(default(some("s"), some("/h")), Some("/h/.local/state/forebay".into()));
        assert_eq!(default(None, some("/h")), Some("/h/.local/state/forebay".into()));
        assert_eq!(default(None, None), None);
    }

    #[test]
    fn a_new_folder_is_private_and_its_path_has_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
        let path = folder(Some(dir.path().join("link/a/b"))).unwrap();
        assert_eq!(path, real.join("a/b"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_where_anybody_may_write_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        set_permissions(parent.path(), Permissions::from_mode(0o1777)).unwrap();
        let refused = folder(Some(parent.path().into())).unwrap_err();
        assert!(refused.to_string().contains("(mode 1777)"), "{refused}");
        assert_eq!(existing(Some(parent.path().into())), None);
    }

    #[test]
    fn a_folder_that_was_open_to_others_is_closed() {
        let parent = tempfile::tempdir().unwrap();
        for mode in [0o755, 0o750, 0o701, 0o700] {
            set_permissions(parent.path(), Permissions::from_mode(mode)).unwrap();
            close(parent.path()).unwrap();
            assert_eq!(parent.path().metadata().unwrap().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_folder_of_another_user_is_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        // Only root can give it away; everybody has root's folder to try.
        let foreign = match chown(parent.path(), Some(4711), None) {
            Ok(()) => parent.path().to_owned(),
            Err(_) => PathBuf::from("/usr"),
        };
        let error = folder(Some(foreign.clone())).unwrap_err();
        assert!(matches!(&error, StateError::Foreign { path, .. } if *path == foreign), "{error}");
    }
}
