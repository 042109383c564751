//! Where the drainers of a job meet, and those who ask them: files in the session's folder on the PFS. It needs no
//! network and no service, only what a PFS is for.
//!
//! ```text
//! TO/.forebay-drain/SESSION/HOST.status          Status, renewed every second while something happens
//!                           HOST.jsonl           see logs
//!                           HOST.claims          see claims
//!                           requests/ID          "decide about everything that is closed by now"
//!                           answers/ID/HOST      Answer
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use disk::below::Root;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::status::{Answer, Status, now_ms};

/// How long a silent drainer counts as alive.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The receipt's name: see [`crate::receipt`].
pub(crate) const RECEIPT: &str = "receipt.jsonl";

/// The end of a status file's name.
const STATUS_SUFFIX: &str = ".status";

/// The last line of every file in the nodes' logs, by host and path below the drained folder.
pub type Files = BTreeMap<(String, String), serde_json::Value>;

/// The folder of a session.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    folder: PathBuf,
}

impl Rendezvous {
    /// The rendezvous in this folder.
    pub fn new(folder: PathBuf) -> Rendezvous {
        Rendezvous { folder }
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes it, below the folder `to` on the PFS.
    ///
    /// # Errors
    /// The PFS's. NOTDIR where a symbolic link is in the way: whatever it leads to is not the drainers'.
    pub fn make(&self, to: &Path) -> anyhow::Result<()> {
        for folder in ["requests", "answers"] {
            let path = self.folder.join(folder);
            let made = Root::at(to).make_folders(&path);
            made.with_context(|| format!("make the folder {}, of folders and no links", path.display()))?;
        }
        Ok(())
    }

    /// Every drainer that has been here.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn statuses(&self) -> std::io::Result<Vec<Status>> {
        let mut found: Vec<Status> = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if !is_temporary(&path) && path.to_str().is_some_and(|name| name.ends_with(STATUS_SUFFIX)) {
                found.extend(read(&path)?);
            }
        }
        found.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(found)
    }

    /// Asks all drainers to decide about everything that is closed by now.
    ///
    /// # Errors
    /// The PFS's.
    pub fn request(&self) -> std::io::Result<String> {
        let id = format!(
            "{}-{}-{}",
            now_ms(),
            rustix::system::uname().nodename().to_string_lossy(),
            std::process::id()
        );
        std::fs::create_dir_all(self.folder.join("answers").join(&id))?;
        std::fs::write(self.folder.join("requests").join(&id), "")?;
        Ok(id)
    }

    /// What has been answered so far.
    ///
    /// # Errors
    /// The PFS's.
    pub fn answers(&self, id: &str) -> std::io::Result<Vec<Answer>> {
        let mut answers = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("answers").join(id))? {
            let path = entry?.path();
            if !is_temporary(&path) {
                answers.extend(read(&path)?);
            }
        }
        answers.sort_by(|a: &Answer, b| a.host.cmp(&b.host));
        Ok(answers)
    }

    /// Takes a request away again: it has been answered, or nobody waits any more.
    pub fn withdraw(&self, id: &str) {
        // What cannot be removed is answered by a later drainer, which harms nobody.
        let _ = std::fs::remove_file(self.folder.join("requests").join(id));
        let _ = std::fs::remove_dir_all(self.folder.join("answers").join(id));
    }

    /// The last line of every file in the logs of all hosts: what is on the PFS, what is not, what was removed.
    ///
    /// # Errors
    /// The PFS's.
    pub fn files(&self) -> std::io::Result<Files> {
        let mut last = Files::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_log = path.extension().is_some_and(|extension| extension == "jsonl");
            if !is_log || path.file_name().is_some_and(|name| name == RECEIPT) {
                continue;
            }
            add_last_lines(&std::fs::read_to_string(&path)?, &mut last);
        }
        Ok(last)
    }

    /// The same of one host, which may have no log yet.
    pub(crate) fn files_of(&self, host: &str) -> std::io::Result<Files> {
        let mut last = Files::new();
        let text = disk::read(&self.folder.join(format!("{host}.jsonl")))?;
        add_last_lines(&String::from_utf8_lossy(&text.unwrap_or_default()), &mut last);
        Ok(last)
    }

    /// The requests that are there.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn requests(&self) -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.folder.join("requests"))?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: &str, answer: &Answer) -> std::io::Result<()> {
        write(&self.folder.join("answers").join(id).join(&answer.host), answer)
    }

    /// Says how a drainer is.
    pub(crate) fn publish(&self, status: &Status) -> std::io::Result<()> {
        write(&self.status_of(&status.host), status)
    }

    /// What the drainer of this host said last; `None`: nothing that can be understood.
    pub(crate) fn last_of(&self, host: &str) -> Option<Status> {
        read(&self.status_of(host)).ok().flatten()
    }

    fn status_of(&self, host: &str) -> PathBuf {
        self.folder.join(format!("{host}{STATUS_SUFFIX}"))
    }
}

fn add_last_lines(log: &str, last: &mut Files) {
    for line in log.lines() {
        // One that is being written is the next reader's; one that was cut off is followed by a whole one.
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        last.insert((text("host"), text("path")), line);
    }
}

/// `None`: it is gone. What cannot be understood stands for a node that may owe files: it is an error, never nothing.
fn read<T: DeserializeOwned>(path: &Path) -> std::io::Result<Option<T>> {
    let named = |tried: &str, error: std::io::Error, advice: &str| {
        std::io::Error::new(error.kind(), format!("{tried} {}: {error}{advice}", path.display()))
    };
    let text = disk::read(path).map_err(|error| named("read", error, ""))?;
    let understood = text.map(|text| serde_json::from_slice(&text)).transpose();
    understood.map_err(|error| {
        named("understand", error.into(), " (its node's drainer writes it anew when it is started again)")
    })
}

/// Replaces a file as a whole, also where the node loses its power meanwhile.
fn write<T: Serialize>(path: &Path, value: &T) -> std::io::Result<()> {
    let (place, temporary) = (Root::at(path.parent().unwrap_or(path)).reach(path)?, temporary(path));
    let mut file = place.create(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()?;
    Ok(place.replace_with(&temporary)?)
}

/// What the next contents of `path` are called while they are written. No host's name begins with a dot, and each
/// host's is another.
fn temporary(path: &Path) -> OsString {
    format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()).into()
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::{Event, Logs};

    fn rendezvous() -> (tempfile::TempDir, Rendezvous) {
        let folder = tempfile::tempdir().unwrap();
        let rendezvous = Rendezvous::new(folder.path().to_owned());
        rendezvous.make(folder.path()).unwrap();
        (folder, rendezvous)
    }

    #[test]
    fn a_receipt_is_complete_only_where_each_node_says_that_it_owes_nothing() {
        let (_folder, rendezvous) = rendezvous();
        for (failed, is_complete) in [(0, "true"), (1, "false")] {
            // Its log has no line of what failed: the disk that it is on was full.
            rendezvous.publish(&Status { host: "n1".into(), failed, ..Status::default() }).unwrap();
            let receipt = std::fs::read_to_string(rendezvous.write_receipt().unwrap()).unwrap();
            assert!(receipt.contains(&format!("\"complete\":{is_complete}")), "{receipt}");
        }
    }

    #[test]
    fn a_status_or_an_answer_that_cannot_be_understood_is_never_a_node_less() {
        for damaged in ["", "{\"host\":\"n1\""] {
            let (folder, rendezvous) = rendezvous();
            std::fs::write(folder.path().join("n1.status"), damaged).unwrap();
            let error = rendezvous.statuses().unwrap_err().to_string();
            assert!(error.contains("n1.status"), "{error}");
            let id = rendezvous.request().unwrap();
            std::fs::write(folder.path().join("answers").join(&id).join("n1"), damaged).unwrap();
            let error = rendezvous.answers(&id).unwrap_err().to_string();
            assert!(error.contains("answers"), "{error}");
        }
    }

    #[test]
    fn every_host_has_an_answer_of_its_own_whatever_it_is_called() {
        let (_folder, rendezvous) = rendezvous();
        let id = rendezvous.request().unwrap();
        let hosts = ["n.tmp", "r1.n1", "r1.n2"];
        for host in hosts {
            let (failed, open) = (Vec::new(), Vec::new());
            rendezvous.answer(&id, &Answer { host: host.to_owned(), landed: 1, failed, open }).unwrap();
        }
        let answered: Vec<String> =
            rendezvous.answers(&id).unwrap().into_iter().map(|answer| answer.host).collect();
        assert_eq!(answered, hosts);
        let drafts: std::collections::BTreeSet<_> =
            hosts.iter().map(|host| temporary(Path::new(host))).collect();
        assert_eq!(drafts.len(), hosts.len(), "two hosts write one file");
    }

    #[test]
    fn a_line_that_was_cut_off_takes_no_other_line_with_it() {
        let (folder, rendezvous) = rendezvous();
        let log = folder.path().join("n1.jsonl");
        let event = |path| Event {
            event: "failed",
            path: Path::new(path),
            target: Path::new("/pfs"),
            size: 1,
            crc32c: None,
            attempts: 1,
            trouble: None,
        };
        for path in ["a", "b"] {
            let logs = Logs::open(folder.path(), folder.path(), "n1").unwrap();
            logs.json(&event(path));
            logs.flush();
            let whole = std::fs::read(&log).unwrap();
            std::fs::write(&log, [&whole, &b"{\"event\":\"done\",\"path\":\"c"[..]].concat()).unwrap();
        }
        let told: Vec<String> = rendezvous.files().unwrap().into_keys().map(|(_, path)| path).collect();
        assert_eq!(told, ["a", "b"]);
    }
}
