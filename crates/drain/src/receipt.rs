//! The receipt of a job: what has landed, with checksums, and what has not, of all its nodes, in one file.
//!
//! ```text
//! TO/.forebay-drain/SESSION/receipt.jsonl := summary line*       a line for each file: its last in the nodes' logs
//! ```
//!
//! It is written by those who find that all nodes have decided: the last to do so after the job finds that, and so does
//! whoever waits for all of them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use disk::below::Root;
use serde::Serialize;

use crate::rendezvous::{Files, Rendezvous};
use crate::settings::RECEIPT;
use crate::status::{Answer, Status};

/// The receipt's first line.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Summary<'a> {
    /// When, RFC 3339.
    time: String,
    /// Whether everything that was closed on any node is on the PFS.
    complete: bool,
    /// The nodes.
    hosts: BTreeSet<&'a str>,
    /// Files on the PFS, verified, and their bytes.
    done: usize,
    bytes: u64,
    /// Those of them of which the PFS lacks something of owner, attributes and times.
    left_out: usize,
    /// Those of them that were read back in samples, not as a whole.
    sampled: usize,
    /// Files that could not be copied.
    failed: usize,
    /// Files that somebody had open for writing.
    open: usize,
    /// Files that were removed on the node, and therefore on the PFS, or before they were there.
    removed: usize,
    /// Files that were renamed or removed on the node, and stay on the PFS: somebody has touched or replaced them.
    kept: usize,
}

/// A receipt that was written.
#[derive(Debug)]
pub struct Receipt {
    /// Where it is.
    pub path: PathBuf,
    /// The nodes that have drained more files than their logs tell of: they are missing in it.
    pub short: Vec<String>,
    /// How many files lack an owner, attribute or time.
    pub left_out: usize,
    /// How many files were read back in samples only.
    pub sampled: usize,
}

impl Rendezvous {
    /// Writes the receipt. What these answers say counts, too.
    ///
    /// # Errors
    /// The PFS's.
    pub fn write_receipt(&self, answers: &[Answer]) -> std::io::Result<Receipt> {
        let path = self.folder().join(RECEIPT);
        let files = self.files()?;
        let statuses = self.statuses()?;
        let mut summary = summary(&files);
        // A node whose log cannot be written, or whose drainer could not start, says itself what it owes.
        summary.complete &= statuses.iter().all(Status::owes_nothing);
        let short = short(&files, answers);
        summary.complete &= short.is_empty() && answers.iter().all(Answer::is_whole);
        summary.hosts.extend(statuses.iter().map(|status| status.host.as_str()));
        let mut text = serde_json::to_string(&summary)?;
        for line in files.values() {
            text += "\n";
            text += &line.to_string();
        }
        text += "\n";
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let draft = OsString::from(format!("receipt.{host}.{}.tmp", std::process::id()));
        let place = Root::at(self.folder()).reach(&path)?;
        let mut file = place.create(&draft)?;
        file.write_all(text.as_bytes())?;
        // What it says must still be said after a power loss.
        file.sync_all()?;
        place.replace_with(&draft)?;
        File::open(self.folder())?.sync_all()?;
        Ok(Receipt { path, short, left_out: summary.left_out, sampled: summary.sampled })
    }
}

/// Every file that has landed has a line, whatever became of it since.
fn short(files: &Files, answers: &[Answer]) -> Vec<String> {
    let told = |host: &str| files.keys().filter(|(other, _)| other == host).count();
    let is_short = |answer: &&Answer| answer.failed.is_empty() && told(&answer.host) < answer.landed;
    answers.iter().filter(is_short).map(|answer| answer.host.clone()).collect()
}

fn summary(files: &Files) -> Summary<'_> {
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let mut summary = Summary { time, ..Summary::default() };
    for ((host, _), line) in files {
        summary.hosts.insert(host);
        match line["event"].as_str() {
            Some("done") => {
                summary.done += 1;
                summary.bytes += line["size"].as_u64().unwrap_or_default();
                summary.left_out += usize::from(line["left_out"].get(0).is_some());
                summary.sampled += usize::from(line["sampled"] == true);
            }
            Some("removed") => summary.removed += 1,
            Some("kept") => summary.kept += 1,
            Some("open") => summary.open += 1,
            _ => summary.failed += 1,
        }
    }
    summary.complete = summary.failed == 0 && summary.open == 0;
    summary
}
