//! The specification of a fragment on disk, `spec.json`: what control asked for. It says what must be there at a start.
//!
//! **Invariant:** it is written when all that it names is durable, and replaced as a whole. One that cannot be read or
//! understood is an error, never "there is none"; so is one that a newer Forebay wrote.

mod record;

use std::path::{Path, PathBuf};

use disk::format::{self, FormatError};
use wire::data::hello::ENCRYPTED;
use wire::node::FragmentSpec;

use super::FragmentError;
use crate::formats;
use record::Record;

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
    let kept: Record = format::decode(&bytes, formats::SPECIFICATION).map_err(|error| match error {
        FormatError::Newer { .. } => FragmentError::Newer(format!("{}: {error}", path.display())),
        FormatError::Sum { .. } | FormatError::Damaged(_) => damaged(error.to_string()),
    })?;
    let spec = FragmentSpec::from(kept);
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
    let text =
        format::encode(&Record::from(spec.clone()), format_of(spec)).map_err(|error| failed(error.into()))?;
    // It has the instance's key: for the owner's eyes only, as all that is kept so.
    disk::replace(&path, &text).map_err(failed)
}

/// A program that does not know of encrypted connections must not serve one that wants them.
fn format_of(spec: &FragmentSpec) -> u32 {
    let is_encrypted = [&spec.key, &spec.other_key].iter().any(|key| key.starts_with(ENCRYPTED));
    if is_encrypted { formats::SPECIFICATION } else { formats::IN_CLEAR }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::stripe::Layout;
    use model::{FragmentIndex, NodeName};
    use wire::control::Owner;
    use wire::node::{Missing, NamespaceSpec, StorageAddress, VolumeKind};

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
        std::fs::write(&path, format::encode(&spec(), formats::SPECIFICATION + 1).unwrap()).unwrap();
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

    #[test]
    fn one_has_the_text_that_it_always_had() {
        let layout = Layout { fragments: 2, width: 2, stripe_size_bytes: 65536 };
        let owner = Owner { uid: 5, gid: 6 };
        let whole = FragmentSpec {
            index: FragmentIndex(3),
            volume: VolumeKind::Image,
            stage_verifier: "cd".into(),
            peers: vec![StorageAddress {
                node: NodeName::literal("n0"),
                tcp: "h:1".into(),
                unix: Some("/s".into()),
            }],
            namespaces: vec![NamespaceSpec { id: 7, layout, home: FragmentIndex(1), owner, mode: 0o700 }],
            grace_ms: 9,
            mirrored: true,
            missing: Missing::NamesRestored,
            witnessed: true,
            term: 4,
            ..spec()
        };
        let text = serde_json::to_value(Record::from(whole.clone())).unwrap();
        let expected = serde_json::json!({
            "instance": "i1", "index": 3, "capacity_bytes": 1, "volume": "image", "key": "ab", "stage_verifier": "cd",
            "peers": [{"node": "n0", "tcp": "h:1", "unix": "/s"}],
            "namespaces": [{
                "id": 7, "layout": {"fragments": 2, "width": 2, "stripe_size_bytes": 65536}, "home": 1,
                "owner": {"uid": 5, "gid": 6}, "mode": 448
            }],
            "grace_ms": 9, "mirrored": true, "missing": "names-restored", "witnessed": true, "term": 4
        });
        assert_eq!(text, expected);
        assert_eq!(FragmentSpec::from(serde_json::from_value::<Record>(text).unwrap()), whole);
    }
}
