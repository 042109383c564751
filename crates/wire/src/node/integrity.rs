//! Whether what a buffer stores is what was written: what is asked for and what is answered.

use std::path::PathBuf;

use model::{FragmentIndex, Ino, NodeName};
use serde::{Deserialize, Serialize};

use super::PartTrouble;
use crate::advice::TOKEN;

/// What a node knows to be wrong with the objects of one fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntegrityStatus {
    /// Objects that were found damaged.
    pub damaged: u64,
    /// Objects whose checksums were lost.
    pub unverified: u64,
    /// How those were lost; `None`: none were.
    pub seals_lost: Option<String>,
    /// Why checksums cannot be noted now; `None`: they can.
    pub seals_error: Option<String>,
    /// Why names cannot change now; `None`: they can.
    #[serde(default)]
    pub log_error: Option<String>,
    /// Losses of writes that no fsync had confirmed, of which no program was told: files, or parts that may have lost
    /// something of any.
    pub lost_writes: u64,
}

/// What to do where a log cannot be written.
const DISK_ADVICE: &str =
    "see to the disk of that file, or to how it is mounted; the node goes on by itself then";

impl IntegrityStatus {
    /// What is wrong, in words, and what to do about it; `None`: nothing.
    pub fn told(&self) -> Option<(String, String)> {
        if self.damaged > 0 {
            let why = format!("{} of its objects are damaged", self.damaged);
            return Some((
                why,
                format!("`forebay scrub {TOKEN}` names the files: write them anew, or remove them"),
            ));
        }
        if let Some(error) = &self.log_error {
            let why = format!("names can be neither made nor changed, nor files opened: {error}");
            return Some((why, DISK_ADVICE.to_owned()));
        }
        if let Some(error) = &self.seals_error {
            let why = format!("its files at rest can be neither changed nor removed: {error}");
            return Some((why, DISK_ADVICE.to_owned()));
        }
        let lost = self.seals_lost.as_ref()?;
        let why = format!("checksums of {} of its objects were lost: {lost}", self.unverified);
        let advice = format!(
            "`forebay scrub {TOKEN}` names the files: compare them with where they came from, or write them anew; \
             `forebay fsck {TOKEN} --repair` takes them as they are"
        );
        Some((why, advice))
    }

    /// What was lost of what nobody was promised, in words, and what to do about it; `None`: nothing.
    pub fn told_of_losses(&self) -> Option<(String, String)> {
        let count = Some(self.lost_writes).filter(|count| *count > 0)?;
        let why = format!(
            "{count} losses of what no fsync had confirmed, as by a power loss: no program was told, and stage-outs \
             refuse these files"
        );
        let advice = format!(
            "have the job write them anew; or look at them and take them as they are with `forebay fsck {TOKEN} \
             --repair`"
        );
        Some((why, advice))
    }
}

/// How a scrub is to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrubSpec {
    /// Bytes a second that it may read of each namespace on a node; `None`: as many as leave the disk to jobs; 0: as
    /// many as can be.
    pub bytes_per_s: Option<u64>,
}

/// How a scrub stands: of one fragment, or of all of a buffer's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrubStatus {
    /// It runs.
    pub running: bool,
    /// There was one since the node started.
    pub begun: bool,
    /// Objects that were compared with their checksums.
    pub objects: u64,
    /// Bytes that were read for it.
    pub bytes: u64,
    /// Objects that could not be sealed, as somebody has them open or is changing them.
    pub in_use: u64,
    /// Places that were damaged, and were repaired from their other copy.
    pub repaired: u64,
    /// What is damaged.
    pub damaged: Vec<Damage>,
    /// Damaged places beyond those that are listed.
    pub more: u64,
    /// Objects that nobody can tell of, as their checksums were lost.
    pub unverified: Vec<Damage>,
    /// Such objects beyond those that are listed.
    pub unverified_more: u64,
    /// Why there are any, also where none is left.
    pub seals_lost: Option<String>,
    /// Why it ended before its end.
    pub error: Option<String>,
    /// Parts of the buffer that were not looked at.
    pub unseen: Vec<PartTrouble>,
}

impl ScrubStatus {
    /// Of nothing yet: what is added counts.
    pub fn sum() -> ScrubStatus {
        ScrubStatus { begun: true, ..ScrubStatus::default() }
    }

    /// Adds that of another part.
    pub fn add(&mut self, one: ScrubStatus) {
        self.running |= one.running;
        self.begun &= one.begun;
        self.objects += one.objects;
        self.bytes += one.bytes;
        self.in_use += one.in_use;
        self.repaired += one.repaired;
        self.more += one.more;
        self.damaged.extend(one.damaged);
        self.unverified_more += one.unverified_more;
        self.unverified.extend(one.unverified);
        self.seals_lost = self.seals_lost.take().or(one.seals_lost);
        self.unseen.extend(one.unseen);
        self.error = self.error.take().or(one.error);
    }
}

/// How a buffer's metadata and objects are to be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsckSpec {
    /// Objects that belong to no file are removed. Those whose checksums were lost are taken as they are, and files
    /// that lost writes.
    pub repair: bool,
}

/// What comparing a buffer's metadata with its objects found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsckReport {
    /// Inodes in the metadata.
    pub inodes: u64,
    /// Objects on all fragments.
    pub objects: u64,
    /// Objects that belong to no file.
    pub orphans: Vec<Orphan>,
    /// Orphans that were removed.
    pub freed: u64,
    /// Objects that were taken as they are.
    pub accepted: u64,
    /// Losses of writes that no fsync had confirmed, of which nobody had been told: files, or parts that may have lost
    /// something of any.
    pub lost_writes: u64,
    /// Those of them that were taken as they are: stages copy such files from now on.
    pub lost_writes_taken: u64,
    /// What is among the objects and is none.
    pub strays: Vec<Stray>,
    /// Parts of the buffer that were not looked at.
    pub unseen: Vec<PartTrouble>,
}

impl FsckReport {
    /// Adds that of another part.
    pub fn add(&mut self, one: FsckReport) {
        self.inodes += one.inodes;
        self.objects += one.objects;
        self.orphans.extend(one.orphans);
        self.freed += one.freed;
        self.accepted += one.accepted;
        self.lost_writes += one.lost_writes;
        self.lost_writes_taken += one.lost_writes_taken;
        self.strays.extend(one.strays);
        self.unseen.extend(one.unseen);
    }
}

/// An object that belongs to no file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// Its namespace.
    pub namespace: u32,
    /// Its inode number.
    pub ino: Ino,
    /// The fragment that it is on.
    pub fragment: FragmentIndex,
    /// Its length, bytes.
    pub bytes: u64,
}

/// A damaged place of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Damage {
    /// The object's namespace.
    pub namespace: u32,
    /// Its inode.
    pub ino: Ino,
    /// Where the place begins in the object, bytes. With several fragments the object is every so many stripes of the
    /// file.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Where the place begins in the file, bytes.
    pub file_start: u64,
    /// Where it ends. Where this is further away than in the object, only what is on this node is damaged in between.
    pub file_end: u64,
    /// The node that has the object.
    pub node: NodeName,
    /// The number of its fragment.
    pub part: FragmentIndex,
    /// What is wrong with these bytes, in words: they `do not match their checksums`.
    pub what: String,
    /// The file's path from the namespace's root; `None`: not known yet, or it has none.
    pub path: Option<String>,
}

/// A file in the folders of objects that is none, or an object in a wrong folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// The node.
    pub node: NodeName,
    /// Where it is there.
    pub path: PathBuf,
}
