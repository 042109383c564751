//! Who runs us.

use std::process::{Command, Stdio};

use wire::control::Owner;

/// Our effective user and group.
pub fn owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Our user's name; the number where it has none.
///
/// `id` asks every source of names that the machine has (files, LDAP, SSSD), which `$USER` under sudo does not.
pub fn user_name() -> String {
    let named = Command::new("id").arg("-un").stderr(Stdio::null()).output().ok();
    named
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| owner().uid.to_string())
}

/// Whether we are root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
