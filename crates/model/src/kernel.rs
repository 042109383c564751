//! What Linux can do, by its release.

/// The first whose syncfs(2) reports what could not be written since the descriptor was opened that it is called on.
const SYNCFS_REPORTS: (u32, u32) = (5, 8);

/// Whether syncfs(2) reports errors of writing, for a kernel with this release, as `uname -r` prints it.
pub fn syncfs_reports_errors(release: &str) -> bool {
    version(release).is_some_and(|version| version >= SYNCFS_REPORTS)
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_version_is_read_from_its_release() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.4"), Some((5, 4)));
        assert_eq!(version("odd"), None);
        assert!(!syncfs_reports_errors("4.18.0-553.el8_10.x86_64"));
        assert!(syncfs_reports_errors("5.10.0"));
    }
}
