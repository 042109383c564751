//! Logs that a newer Forebay wrote.

use super::*;

#[test]
fn a_log_that_a_newer_forebay_wrote_is_refused_by_name_kept_and_given_up_for_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    written(&path, 3);
    let known = std::fs::read(&path).unwrap();
    let mut version = known.clone();
    version[8] = 3;
    // As the last of a log, where it could be taken for one that was torn.
    let mut record = known.clone();
    let body = [0x7F; 12];
    // Three entries and the one that ends what the log began with are there.
    let next = 4_u64.to_le_bytes();
    let sum = crc32c::crc32c(&[&next[..], &body].concat());
    record.extend([&12_u32.to_le_bytes()[..], &sum.to_le_bytes(), &next, &body].concat());
    for newer in [version, record] {
        std::fs::write(&path, &newer).unwrap();
        let refused = read(&path).unwrap_err();
        assert!(matches!(refused, LogError::Newer { .. }) && !restore::is_lost(&refused), "{refused}");
        assert!(
            refused.to_string().contains("meta.log") && refused.to_string().contains("a newer one wrote it")
        );
        assert_eq!(std::fs::read(&path).unwrap(), newer);
    }
}
