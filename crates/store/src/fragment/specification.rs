//! The specification of a fragment on disk, `spec.json`: what control asked for. It says what must be there at a start.
//!
//! **Invariant:** it is written when all that it names is durable, and replaced as a whole. One that cannot be read or
//! understood is an error, never "there is none"; so is one that a newer Forebay wrote.

use std::path::{Path, PathBuf};

use disk::format::FormatError;
use wire::data::hello::ENCRYPTED;
use wire::node::FragmentSpec;

use super::FragmentError;

/// Where the specification of the fragment below `folder` is.
pub fn path_of(folder: &Path) -> PathBuf {
    folder.join("spec.json")
}

/// The specification of the fragment below `folder`, whose instance is the folder's name. `None`: the folder is empty
/// or not there.
///
/// # Errors
/// It cannot be read, is damaged, newer or of another instance, or is missing although there are other files.
pub fn read(folder: &Path) -> Result<Option<FragmentSpec>, FragmentError> {
    let path = path_of(folder);
    let bytes = disk::read(&path).map_err(|cause| FragmentError::io("read", &path, cause))?;
    let Some(bytes) = bytes else {
        let is_empty = is_empty(folder).map_err(|cause| FragmentError::io("list", folder, cause))?;
        return if is_empty { Ok(None) } else { Err(FragmentError::NoSpecification { path }) };
    };
    let damaged = |why: String| FragmentError::Specification { path: path.clone(), why };
    let spec: FragmentSpec = kept::decode(&bytes, kept::FRAGMENT).map_err(|error| match error {
        FormatError::Newer { .. } => FragmentError::Newer(format!("{}: {error}", path.display())),
        FormatError::Sum { .. } | FormatError::Damaged(_) => damaged(error.to_string()),
    })?;
    match folder.file_name().is_some_and(|name| name == spec.instance.as_str()) {
        true => Ok(Some(spec)),
        false => Err(damaged(format!("it is that of {}", spec.instance))),
    }
}

fn is_empty(folder: &Path) -> std::io::Result<bool> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        listed => Ok(listed?.next().transpose()?.is_none()),
    }
}

/// Keeps the specification in `folder` for the next start.
///
/// # Errors
/// The file system's: then the former one is there, if there was one.
pub fn write(folder: &Path, spec: &FragmentSpec) -> Result<(), FragmentError> {
    let path = path_of(folder);
    let failed = |cause| FragmentError::io("write", &path, cause);
    let text = kept::encode(spec, format_of(spec)).map_err(|error| failed(error.into()))?;
    // It has the instance's key: for the owner's eyes only, as all that is kept so.
    disk::replace(&path, &text).map_err(failed)
}

/// A program that does not know of encrypted connections must not serve one that wants them.
fn format_of(spec: &FragmentSpec) -> u32 {
    let is_encrypted = [&spec.key, &spec.other_key].iter().any(|key| key.starts_with(ENCRYPTED));
    if is_encrypted { kept::FRAGMENT } else { kept::FRAGMENT_IN_CLEAR }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> FragmentSpec {
        let text = r#"{"instance": "i1", "index": 0, "capacity_bytes": 1, "volume": "directory", "key": "ab",
            "peers": [], "namespaces": []}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn one_whose_connections_are_encrypted_is_newer_than_programs_that_cannot_and_no_other_is() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("i1");
        std::fs::create_dir(&folder).unwrap();
        let encrypted = format!("{ENCRYPTED}{}", "ab".repeat(32));
        for (key, other_key, format) in [("ab", "", 1), (&encrypted, "", 2), ("ab", &encrypted, 2)] {
            let spec = FragmentSpec { key: key.into(), other_key: other_key.into(), ..spec() };
            write(&folder, &spec).unwrap();
            let kept: serde_json::Value =
                serde_json::from_slice(&std::fs::read(path_of(&folder)).unwrap()).unwrap();
            assert_eq!(kept["format"], format);
            assert_eq!(read(&folder).unwrap(), Some(spec));
        }
    }

    #[test]
    fn one_that_a_newer_forebay_wrote_is_refused_by_name_and_kept() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("i1");
        std::fs::create_dir(&folder).unwrap();
        let path = path_of(&folder);
        std::fs::write(&path, kept::encode(&spec(), kept::FRAGMENT + 1).unwrap()).unwrap();
        let newer = std::fs::read(&path).unwrap();
        let refused = read(&folder).unwrap_err();
        assert!(refused.to_string().contains("spec.json: it has format 3"), "{refused}");
        assert!(refused.advice().contains("newer"), "{}", refused.advice());
        assert_eq!(std::fs::read(&path).unwrap(), newer);
    }

    #[test]
    fn one_from_before_the_first_release_is_read() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("i1");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(path_of(&folder), serde_json::to_vec(&spec()).unwrap()).unwrap();
        assert_eq!(read(&folder).unwrap().unwrap().key, spec().key);
    }
}
