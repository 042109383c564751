//! Where the drainers of a job meet, and those who ask them: files in the session's folder on the PFS. It needs no
//! network and no service, only what a PFS is for.
//!
//! ```text
//! TO/.forebay-drain/SESSION/HOST.status          Status, renewed every second while something happens
//!                           HOST.HASH.refused    Status of a start that was refused, see unstarted
//!                           HOST.jsonl           see logs
//!                           HOST.claims          see claims
//!                           requests/ID          "decide about everything that is closed by now"
//!                           answers/ID/HOST      Answer
//! ```

mod draft;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use disk::below::Root;
use rustix::fs::{AtFlags, unlinkat};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stage::journal::PathText;

use self::draft::{is_temporary, write, write_as};
use crate::namesake;
use crate::settings::{LOG_SUFFIX, RECEIPT};
use crate::status::{Answer, Status, now_ms};

/// As large as an answer without troubles is on most file systems, bytes.
const ANSWER_BYTES: usize = 4096;

/// The end of a status file's name.
const STATUS_SUFFIX: &str = ".status";

/// The end of the name of a refused start's file.
const REFUSED_SUFFIX: &str = ".refused";

/// The last line of every file in the nodes' logs, by host and path below the drained folder.
pub type Files = BTreeMap<(String, PathBuf), serde_json::Value>;

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

    /// Every drainer that has been here, or could not start, with its last word.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn statuses(&self) -> std::io::Result<Vec<Status>> {
        let (names, mut found): (_, Vec<Status>) = (self.names()?, Vec::new());
        // A name that is replaced while the folder is listed may not be listed. A log is there as long as its node, and
        // is replaced by nothing.
        let host_of = |name: &String| {
            let host = name.strip_suffix(STATUS_SUFFIX).or_else(|| name.strip_suffix(LOG_SUFFIX))?;
            (name != RECEIPT).then(|| host.to_owned())
        };
        for host in names.iter().filter_map(host_of).collect::<BTreeSet<String>>() {
            found.extend(read(&self.status_of(&host))?);
        }
        for name in names {
            let Some(host) = name.strip_suffix(REFUSED_SUFFIX) else { continue };
            if let Some(refusal) = read(&self.folder.join(&name))? {
                namesake::add_refusal(&mut found, host.to_owned(), refusal);
            }
        }
        found.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(found)
    }

    /// What is in the folder, in order, but for what is being written.
    fn names(&self) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).filter(|_| !is_temporary(&path));
            names.extend(name.map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The files of starts that were refused.
    pub(crate) fn refusals(&self) -> std::io::Result<Vec<PathBuf>> {
        let names = self.names()?.into_iter().filter(|name| name.ends_with(REFUSED_SUFFIX));
        Ok(names.map(|name| self.folder.join(name)).collect())
    }

    /// What one of them says; `None`: it was taken back.
    pub(crate) fn refusal(&self, file: &Path) -> std::io::Result<Option<Status>> {
        read(file)
    }

    /// Where a refused start on this host is noted, of the folder of this hash.
    pub(crate) fn refusal_of(&self, host: &str, folder: u32) -> PathBuf {
        self.folder.join(format!("{host}.{folder:08x}{REFUSED_SUFFIX}"))
    }

    /// Notes it.
    pub(crate) fn write_refusal(&self, file: &Path, refusal: &Status) -> std::io::Result<()> {
        write(file, refusal)
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
        let (answers, request) = (self.answers_to(&id), self.folder.join("requests").join(&id));
        std::fs::create_dir_all(&answers).map_err(|error| named("make", &answers, &error))?;
        let made = Root::at(&self.folder).reach(&request).map_err(Into::into);
        let made = made.and_then(|place| place.create(&place.name));
        made.inspect_err(|_| self.withdraw(&id)).map_err(|error| named("make", &request, &error))?;
        Ok(id)
    }

    fn answers_to(&self, id: &str) -> PathBuf {
        self.folder.join("answers").join(id)
    }

    /// Writes what is as large as an answer beside those to a request.
    pub(crate) fn try_room(&self, id: &str) -> std::io::Result<()> {
        // No host's name begins with a dot.
        write(&self.answers_to(id).join(".room"), &" ".repeat(ANSWER_BYTES))
    }

    /// What has been answered so far.
    ///
    /// # Errors
    /// The PFS's.
    pub fn answers(&self, id: &str) -> std::io::Result<Vec<Answer>> {
        let mut answers = Vec::new();
        for entry in std::fs::read_dir(self.answers_to(id))? {
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
        let _ = std::fs::remove_dir_all(self.answers_to(id));
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
            // A line that was cut off may end within a letter.
            let text = disk::read(&path).map_err(|error| named("read", &path, &error))?;
            add_last_lines(&String::from_utf8_lossy(&text.unwrap_or_default()), &mut last);
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
        write(&self.answers_to(id).join(&answer.host), answer)
    }

    /// Says how a drainer is.
    pub(crate) fn publish(&self, status: &Status) -> std::io::Result<()> {
        write(&self.status_of(&status.host), status)
    }

    /// Says so in the place of what was there `before`. `false`: another has said something since.
    pub(crate) fn succeed(&self, before: Option<&Status>, said: &Status) -> std::io::Result<bool> {
        let path = self.status_of(&said.host);
        write_as(&path, said, |place, draft| {
            if before.is_none() && place.fill_with(draft).is_ok() {
                return Ok(true);
            }
            // What nobody understands is no word.
            let is_as_before = self.last_of(&said.host)?.as_ref() == before;
            if is_as_before {
                place.replace_with(draft)?
            } else {
                unlinkat(&place.folder, draft, AtFlags::empty())?
            }
            Ok(is_as_before)
        })
    }

    /// Removes what was said of this host.
    pub(crate) fn remove_word(&self, host: &str) -> std::io::Result<()> {
        disk::if_there(std::fs::remove_file(self.status_of(host))).map(drop)
    }

    /// What the drainer of this host said last; `None`: nothing, or what cannot be understood, which it writes anew.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn last_of(&self, host: &str) -> std::io::Result<Option<Status>> {
        let path = self.status_of(host);
        let text = disk::read(&path).map_err(|error| named("read", &path, &error))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Where it says that.
    fn status_of(&self, host: &str) -> PathBuf {
        self.folder.join(format!("{host}{STATUS_SUFFIX}"))
    }
}

/// The path that a line of a log has under this key.
pub fn path_in(line: &serde_json::Value, key: &str) -> PathBuf {
    PathText::deserialize(&line[key]).map_or_else(|_| PathBuf::new(), |path| path.to_path())
}

/// The error, with what was tried on which file.
fn named(tried: &str, path: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{tried} {}: {error}", path.display()))
}

fn add_last_lines(log: &str, last: &mut Files) {
    for line in log.lines() {
        // One that is being written is the next reader's; one that was cut off is followed by a whole one.
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let host = line["host"].as_str().unwrap_or_default().to_owned();
        last.insert((host, path_in(&line, "path")), line);
    }
}

/// `None`: it is gone. What cannot be understood stands for a node that may owe files: it is an error, never nothing.
fn read<T: DeserializeOwned>(path: &Path) -> std::io::Result<Option<T>> {
    let text = disk::read(path).map_err(|error| named("read", path, &error))?;
    let understood = text.map(|text| serde_json::from_slice(&text)).transpose();
    understood.map_err(|error| {
        let error = named("understand", path, &error.into());
        let advice = "its node's drainer writes it anew when it is started again";
        std::io::Error::new(error.kind(), format!("{error} ({advice})"))
    })
}

#[cfg(test)]
mod tests;
