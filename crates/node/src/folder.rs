//! The names in a node's folder.

use std::path::{Path, PathBuf};

use daemon::error::user;
use wire::control::{ApiError, ErrorCode};

/// A node's folder.
#[derive(Clone, Debug)]
pub(crate) struct NodeFolder(pub PathBuf);

impl NodeFolder {
    /// Where the node answers control.
    pub(crate) fn node_socket(&self) -> PathBuf {
        self.0.join("node.sock")
    }

    /// Where the data path answers processes of this machine.
    pub(crate) fn data_socket(&self) -> PathBuf {
        self.0.join("data.sock")
    }

    /// Says which process uses the folder.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("node.lock")
    }

    /// The data path's TCP port, in decimal.
    pub(crate) fn data_port(&self) -> PathBuf {
        self.0.join("data.port")
    }

    /// The API's TCP port, in decimal, where it was any.
    pub(crate) fn api_port(&self) -> PathBuf {
        self.0.join("api.port")
    }

    /// Which fragments are not where they were; see `wire::data::moved`.
    pub(crate) fn moved(&self) -> PathBuf {
        self.0.join(wire::data::moved::NAME)
    }

    /// The fragments; what is in it belongs to the store.
    pub(crate) fn fragments(&self) -> PathBuf {
        self.0.join("fragments")
    }

    /// One folder for each mount.
    pub(crate) fn mounts(&self) -> PathBuf {
        self.0.join("mounts")
    }

    /// One folder for each private volume.
    pub(crate) fn locals(&self) -> PathBuf {
        self.0.join("locals")
    }

    /// One folder for each stage.
    pub(crate) fn stages(&self) -> PathBuf {
        self.0.join("stages")
    }
}

/// The folder of `id` in `parent`.
///
/// # Errors
/// `bad_id`, where the id could name anything but one new file in `parent`.
pub(crate) fn of_id(parent: &Path, id: &str) -> Result<PathBuf, ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !id.is_empty() && id.len() <= 128 && !id.starts_with('.') && id.chars().all(plain) {
        return Ok(parent.join(id));
    }
    Err(user(
        ErrorCode::BadId,
        format!("invalid id {id:?}"),
        "use letters, digits, '.', '_' and '-', at most 128",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_folder() {
        assert_eq!(of_id(Path::new("/m"), "3-striped").unwrap(), Path::new("/m/3-striped"));
        for id in ["", ".", "..", "a/b", "../x", "a\0b"] {
            assert_eq!(of_id(Path::new("/m"), id).unwrap_err().code, ErrorCode::BadId);
        }
    }
}
