//! What a fragment that takes the place of one that is lost has still to take from other nodes.
//!
//! ```text
//! FRAGMENT/restoring    from before the fragment has its name, until all objects are there, or noted as lost, durably:
//!                       empty, or what an operator accepts ([`Due`])
//! ```

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::node::Missing;

/// What is still to be taken from other nodes, before a fragment is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Due {
    /// Objects and names: they are known to be there, or which objects are not.
    Everything,
    /// Names: nobody knows what the mirror lacks, and all objects are lost.
    Names,
    /// The same, as the copy has them, although it may lack what was confirmed.
    AcceptedNames,
}

impl Due {
    /// Where a fragment is made so; `None`: nothing.
    pub fn of(missing: Missing) -> Option<Due> {
        match missing {
            Missing::Refused | Missing::Made => None,
            Missing::Restored => Some(Due::Everything),
            Missing::NamesRestored => Some(Due::Names),
            Missing::NamesAccepted => Some(Due::AcceptedNames),
        }
    }

    /// Whether all objects of a fragment, which is mirrored or is not, are lost.
    pub fn loses_objects(self, mirrored: bool) -> bool {
        match self {
            Due::Everything => !mirrored,
            Due::Names | Due::AcceptedNames => true,
        }
    }
}

/// Where that is noted in the fragment below `folder`.
pub fn note_of(folder: &Path) -> PathBuf {
    folder.join("restoring")
}

/// Notes durably what is still to be taken from other nodes for the fragment below `folder`.
///
/// # Errors
/// The file system's.
pub fn note(folder: &Path, due: Due) -> io::Result<()> {
    disk::replace(&note_of(folder), &serde_json::to_vec(&due)?)
}

/// What that is for the fragment below `folder`; `None`: nothing.
///
/// # Errors
/// It cannot be told: that is no reason to take anything, nor to take nothing.
pub fn of(folder: &Path) -> io::Result<Option<Due>> {
    match disk::read(&note_of(folder))? {
        None => Ok(None),
        // As it was noted before there was anything else.
        Some(text) if text.is_empty() => Ok(Some(Due::Everything)),
        Some(text) => Ok(Some(serde_json::from_slice(&text)?)),
    }
}

/// Nothing is any more, durably.
///
/// # Errors
/// The file system's.
pub fn done(folder: &Path) -> io::Result<()> {
    let note = note_of(folder);
    disk::remove_file(&note)?;
    disk::sync_names(&note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_what_is_not_understood_is_no_leave_to_serve() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of(folder.path()).unwrap(), None);
        let words = ["\"everything\"", "\"names\"", "\"accepted-names\""];
        for (due, word) in [Due::Everything, Due::Names, Due::AcceptedNames].into_iter().zip(words) {
            note(folder.path(), due).unwrap();
            assert_eq!(std::fs::read_to_string(note_of(folder.path())).unwrap(), word);
            assert_eq!(of(folder.path()).unwrap(), Some(due));
        }
        std::fs::write(note_of(folder.path()), "").unwrap();
        assert_eq!(of(folder.path()).unwrap(), Some(Due::Everything), "of before there was anything else");
        for text in ["\"of-a-newer\"", "{"] {
            std::fs::write(note_of(folder.path()), text).unwrap();
            of(folder.path()).unwrap_err();
            assert_eq!(std::fs::read_to_string(note_of(folder.path())).unwrap(), text);
        }
    }
}
