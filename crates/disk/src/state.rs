//! Where a user's buffers live on this machine.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

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
}

/// The state folder: `dir`, else `$XDG_STATE_HOME/forebay`, else `~/.local/state/forebay`. Made if missing, with mode
/// 0700. The path that comes back is absolute and has no symbolic links, so that it compares with the kernel's mount
///       table.
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
    DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(io)?;
    path.canonicalize().map_err(io)
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
    use std::os::unix::fs::PermissionsExt;

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
}
