//! The groups of a user.

use std::io;
use std::process::Command;

/// All groups of a user whose main one is `gid`, that one first. A user without a name has the main group alone.
/// Blocks.
///
/// # Errors
/// `id` cannot be started.
pub fn of(uid: u32, gid: u32) -> io::Result<Vec<u32>> {
    let others = known(uid)?.unwrap_or_default().into_iter().filter(|other| *other != gid);
    Ok([gid].into_iter().chain(others).collect())
}

/// All groups of a user, the main one first; `None`: this host knows no such user. From `id -G`, which asks the name
/// services (LDAP, SSSD) as the C library does, what nothing else in Rust can do without unsafe code. Blocks.
///
/// # Errors
/// `id` cannot be started.
pub fn known(uid: u32) -> io::Result<Option<Vec<u32>>> {
    let output = Command::new("id").args(["-G", "--", &uid.to_string()]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let groups: Vec<u32> = text.split_whitespace().filter_map(|group| group.parse().ok()).collect();
    Ok((!groups.is_empty()).then_some(groups))
}
