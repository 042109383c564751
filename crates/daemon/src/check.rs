//! What a service finds in its way when it starts, looked at without starting it. Nothing is made or changed.

use std::fmt;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::{Access, Mode, OFlags, access, mkdir, open, rmdir};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

/// What was found: what a start would refuse, and what it would do or go on without.
#[derive(Debug, Default)]
pub struct Findings {
    refusals: Vec<String>,
    remarks: Vec<String>,
}

impl Findings {
    /// A start is refused.
    pub fn refuse(&mut self, what: impl fmt::Display) {
        self.refusals.push(what.to_string());
    }

    /// A start goes on.
    pub fn remark(&mut self, what: impl fmt::Display) {
        self.remarks.push(what.to_string());
    }

    /// The configuration `path`. What cannot be understood of it is refused, and left out.
    pub fn file<T: DeserializeOwned>(&mut self, path: &Path) -> Option<T> {
        match crate::config::examine(path) {
            Ok((file, wrong)) => {
                wrong.into_iter().for_each(|what| self.refuse(what));
                file
            }
            Err(error) => {
                self.refuse(format_args!("read it: {error}"));
                None
            }
        }
    }

    /// The same as [`Findings::refuse`] where `key` has a value that cannot be used.
    pub fn value<T>(&mut self, key: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|reason| self.refuse(format_args!("{key}: {reason}"))).ok()
    }

    /// The state folder that `key` names: this user's own, or one that can be made.
    pub fn own_folder(&mut self, key: &str, path: &Path) {
        match path.metadata() {
            Ok(found) if !found.is_dir() => {
                self.refuse(format_args!("{key}: {} is not a folder", path.display()))
            }
            Ok(found) => self.owned(key, path, &found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.makeable(key, path),
            Err(error) => self.refuse(format_args!("{key}: look up {}: {error}", path.display())),
        }
    }

    fn owned(&mut self, key: &str, path: &Path, found: &std::fs::Metadata) {
        use std::os::unix::fs::MetadataExt;
        let own = rustix::process::geteuid().as_raw();
        if found.uid() != own {
            let uid = found.uid();
            return self.refuse(format_args!(
                "{key}: {} belongs to user {uid}, and this runs as user {own}: chown it, or check as that user",
                path.display()
            ));
        }
        self.writable(key, path);
    }

    /// A folder that is there, in which files are to be made.
    fn writable(&mut self, key: &str, folder: &Path) {
        let allowed = access(folder, Access::WRITE_OK | Access::EXEC_OK);
        if let Err(errno) = allowed.and_then(|()| makes_files(folder)) {
            self.refuse(format_args!("{key}: make files in {}: {errno}", folder.display()));
        }
    }

    /// A folder that is not there: the nearest above it must let it be made.
    fn makeable(&mut self, key: &str, path: &Path) {
        // What cannot be looked up is not passed over: it is said below why.
        let is_there = |above: &&Path| disk::exists(above).unwrap_or(true);
        self.open_folder(key, path.ancestors().skip(1).find(is_there).unwrap_or(Path::new(".")));
    }

    /// A folder that has to be there, in which files are to be made.
    fn open_folder(&mut self, key: &str, folder: &Path) {
        match disk::is_folder(folder) {
            Ok(true) => self.writable(key, folder),
            Ok(false) => self.refuse(format_args!("{key}: {} is not a folder", folder.display())),
            Err(error) => self.refuse(format_args!("{key}: look up {}: {error}", folder.display())),
        }
    }

    /// A file that is appended to, or made.
    pub fn appended(&mut self, key: &str, file: &Path) {
        match disk::exists(file) {
            Ok(false) => self.open_folder(key, file.parent().unwrap_or(Path::new("/"))),
            Err(error) => self.refuse(format_args!("{key}: look up {}: {error}", file.display())),
            Ok(true) => {
                if let Err(errno) = access(file, Access::WRITE_OK) {
                    self.refuse(format_args!("{key}: write to {}: {errno}", file.display()));
                }
            }
        }
    }

    /// A TCP address that is listened at; `runs` says that the service itself has it.
    pub fn address(&mut self, key: &str, address: &str, runs: bool) {
        match TcpListener::bind(address) {
            Ok(_) => {}
            Err(error) if runs && error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => self.refuse(format_args!("{key}: listen at {address}: {error}")),
        }
    }

    /// Says what was found in the configuration `file` of `program`, and ends it: with 1 where a start is refused.
    pub fn tell(self, program: &str, file: &Path) -> ExitCode {
        let file = file.display();
        // Nobody is left to be told where this fails; the exit status says enough.
        for refusal in &self.refusals {
            let _ = writeln!(io::stderr(), "{file}: {refusal}");
        }
        for remark in &self.remarks {
            let _ = writeln!(io::stderr(), "{file}: note: {remark}");
        }
        if !self.refusals.is_empty() {
            return ExitCode::FAILURE;
        }
        let _ = writeln!(io::stdout(), "{program}: a start with {file} finds nothing in its way");
        ExitCode::SUCCESS
    }
}

/// Whether files can be made in a folder. One without a name is made, which nobody sees; where the file system has none
/// such, a folder for a moment.
fn makes_files(folder: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let probe = folder.join(format!(".forebay-check-{}", std::process::id()));
            mkdir(&probe, Mode::RWXU).and_then(|()| rmdir(&probe))
        }
        opened => opened.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_of_a_start_is_found_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let mut findings = Findings::default();
        findings.own_folder("state_dir", &dir.path().join("new/state"));
        findings.own_folder("state_dir", dir.path());
        findings.appended("audit_log", &dir.path().join("log"));
        findings.address("listen", &address, true);
        assert!(findings.refusals.is_empty(), "{findings:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

        findings.own_folder("state_dir", &file);
        findings.own_folder("state_dir", &file.join("below"));
        findings.appended("audit_log", &dir.path().join("none/log"));
        findings.address("listen", &address, false);
        findings.address("metrics", "no address", false);
        // Whoever is root may make files there, and cannot.
        findings.own_folder("state_dir", Path::new("/proc/new"));
        assert_eq!(findings.value::<u8>("pool", Err("is not there".into())), None);
        assert_eq!(findings.refusals.len(), 7, "{findings:?}");
    }
}
