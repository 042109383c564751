//! Who runs us.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

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

/// The name of another user; the number where it has none. Asked once for each.
pub fn name_of(uid: u32) -> String {
    static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = || daemon::config::name_of(uid).unwrap_or_else(|_| uid.to_string());
    known.entry(uid).or_insert_with(asked).clone()
}

/// The short name of this machine.
pub fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// What a login gives our user, as the system's database of users has it.
pub fn login_environment() -> [(&'static str, String); 4] {
    let name = user_name();
    let entry = Command::new("getent").args(["passwd", &name]).stderr(Stdio::null()).output().ok();
    let entry = entry.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let fields: Vec<String> = entry.unwrap_or_default().split(':').map(str::to_owned).collect();
    let field = |index: usize, default: &str| {
        fields.get(index).filter(|field| !field.is_empty()).cloned().unwrap_or_else(|| default.to_owned())
    };
    let (home, shell) = (field(5, "/"), field(6, "/bin/sh"));
    [("USER", name.clone()), ("LOGNAME", name), ("HOME", home), ("SHELL", shell)]
}

/// Whether we are root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
