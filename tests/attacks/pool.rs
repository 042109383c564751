//! Options of the cluster's default pool.

use std::fs;
use std::time::Duration;

use tests::processes::wait_until;
use tests::sharing::Site;

/// Starts control again with the option, or without it.
pub fn set(site: &Site, option: &str, is_on: bool) {
    let (path, set) = (site.folder().join("etc/control.toml"), format!(", {option} = true"));
    let text = fs::read_to_string(&path).expect("`up` wrote it").replace(&set, "");
    let on = text.replacen("\"16MiB\" }", &format!("\"16MiB\"{set} }}"), 1);
    fs::write(&path, if is_on { &on } else { &text }).expect("the folder is ours");
    site.control().kill();
    assert!(wait_until(Duration::from_secs(60), || site.online() == 4), "control does not come back");
}
