//! Extended attributes, and which of them a stage keeps.

/// An extended attribute: its name and its value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// Whether an extended attribute is a POSIX ACL.
pub(crate) fn is_access_list(name: &[u8]) -> bool {
    name == b"system.posix_acl_access" || name == b"system.posix_acl_default"
}

/// Whether an extended attribute is one that a stage keeps: the user's own and POSIX ACLs. The rest belongs to the
/// system that the file is on.
pub(crate) fn keeps_xattr(name: &[u8]) -> bool {
    name.starts_with(b"user.") || is_access_list(name)
}

/// Whether an extended attribute is one that a system gives its files by itself, by its own policy: the copy has what
/// its own system gives it.
pub(crate) fn is_label(name: &[u8]) -> bool {
    const LABELS: [&[u8]; 5] =
        [b"security.selinux", b"security.SMACK64", b"security.apparmor", b"security.ima", b"security.evm"];
    LABELS.iter().any(|label| name.starts_with(label))
}
