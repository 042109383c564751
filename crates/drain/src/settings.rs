//! How one drainer works.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use model::Token;

use crate::status::Status;

/// The folder with the drainer's own files, in the drained folder and in the one on the PFS.
pub const OWN_FOLDER: &str = ".forebay-drain";

/// The file in the drainer's folder that asks the node service to run a drainer for a volume of the node: the words of
/// its command line, as a JSON list. A drainer that somebody else has started in a volume leaves it, too: what it owes
/// when the job is over the node drains before it discards the volume.
pub const REQUEST: &str = "request.json";

/// The file in the drainer's folder that says that its user has stopped it: the node service leaves it so until the job
/// is over. It goes when a drainer starts.
pub const STOPPED: &str = "stopped";

/// How many files are copied at the same time where nobody says so.
pub const WORKERS: u8 = 4;

/// The end of the name of a node's log in the session's folder.
pub(crate) const LOG_SUFFIX: &str = ".jsonl";

/// The receipt's name there: see [`crate::receipt`].
pub(crate) const RECEIPT: &str = "receipt.jsonl";

/// How one drainer works, as its command line has it.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// What is drained: a folder on this node's flash
    #[arg(long, value_name = "FOLDER", env = "PERSIST_DIR")]
    pub from: PathBuf,
    /// Where to: a folder on the parallel file system
    #[arg(long, value_name = "FOLDER", env = "PFS_DIR")]
    pub to: PathBuf,
    /// What the drainers of all nodes of a job have in common [default: the job's id, else `shell`]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// This node's name [default: Slurm's name for it, else the host's]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// When two nodes have files of one name
    #[arg(long, value_enum, default_value = "suffix")]
    pub same_name: SameName,
    /// When a file is removed on the node [default: keep]
    #[arg(long, value_enum)]
    pub removed: Option<Removed>,
    /// At most so many bytes a second on the parallel file system, as 500MiB: those written, and those read back to
    /// verify them
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    pub limit: Option<String>,
    /// Stay on these processors, as 0,84-87
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub cores: Option<String>,
    /// Files copied at the same time
    #[arg(long, value_name = "N", default_value_t = WORKERS, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: u8,
    /// While the job writes to the flash in a burst
    #[arg(long, value_enum, default_value = "wait")]
    pub bursts: Bursts,
    /// When the job's time ends, seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SLURM_JOB_END_TIME")]
    pub deadline: Option<u64>,
    /// Slurm's number of the job: its time limit counts, and its output has the warning that the time is too short
    #[arg(long, value_name = "JOB", env = "SLURM_JOB_ID")]
    pub slurm_job: Option<Token>,
    /// Where the drainer keeps what it has done [default: .forebay-drain in the drained folder]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

/// Whoever has the command line hears of a mistake, and not the log of the drainer that it starts.
fn limit(text: &str) -> Result<String, String> {
    model::size::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn cores(text: &str) -> Result<String, String> {
    numbers_of(text).map(|_| text.to_owned()).ok_or_else(|| "not a list of numbers, as 0,84-87".to_owned())
}

/// The first and the last of each range of numbers in a list.
pub fn numbers_of(list: &str) -> Option<Vec<(usize, usize)>> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    list.split(',').map(range).collect()
}

/// What becomes of files of several nodes that have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SameName {
    /// The first has it, the others get `.HOST` at the end of theirs
    Suffix,
    /// Each node has a folder of its own, TO/HOST
    Folder,
    /// The first has it, the others are not drained and counted as failed
    Error,
}

/// What the drain does while the job writes to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bursts {
    /// New files wait, 10 s at most
    Wait,
    /// It goes on
    Ignore,
}

/// What becomes of a file on the PFS that is removed on the node. A file that is renamed is renamed in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Removed {
    /// It stays
    Keep,
    /// It is removed, if the drainer put it there and nobody changed it
    Follow,
}

impl Settings {
    /// The drainer's own folder on the node.
    pub fn state(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| self.from.join(OWN_FOLDER))
    }

    /// The same as words of a command line, with both folders as they are from here and all that the environment says.
    ///
    /// # Errors
    /// The present folder is not known.
    pub fn words(&self) -> std::io::Result<Vec<OsString>> {
        let mut words = vec![];
        let mut add = |name: &str, value: OsString| words.extend([OsString::from(name), value]);
        add("--from", std::path::absolute(&self.from)?.into());
        add("--to", std::path::absolute(&self.to)?.into());
        add("--session", self.session().into());
        add("--host", self.host().into());
        add("--same-name", value_name(self.same_name).into());
        add("--removed", value_name(self.removed()).into());
        add("--bursts", value_name(self.bursts).into());
        add("--workers", self.workers.to_string().into());
        if let Some(limit) = &self.limit {
            add("--limit", limit.into());
        }
        if let Some(cores) = &self.cores {
            add("--cores", cores.into());
        }
        if let Some(deadline) = self.deadline {
            add("--deadline", deadline.to_string().into());
        }
        if let Some(job) = &self.slurm_job {
            add("--slurm-job", job.as_str().into());
        }
        if let Some(state) = &self.state {
            add("--state", std::path::absolute(state)?.into());
        }
        Ok(words)
    }

    /// The same as [`REQUEST`] has it.
    ///
    /// # Errors
    /// The present folder is not known, or a path is not UTF-8.
    pub fn request(&self) -> std::io::Result<Vec<u8>> {
        let text = |word: OsString| {
            word.into_string()
                .map_err(|word| std::io::Error::other(format!("{} is not UTF-8", word.display())))
        };
        let words = self.words()?.into_iter().map(text).collect::<std::io::Result<Vec<String>>>()?;
        Ok(serde_json::to_vec(&words)?)
    }

    /// What becomes of a file on the PFS that is removed on the node.
    pub(crate) fn removed(&self) -> Removed {
        self.removed.unwrap_or(Removed::Keep)
    }

    /// What these ask for by name that the drainer of this status does not do: options, each with its value there.
    pub fn unlike(&self, runs: &Status) -> Vec<String> {
        let is_so = self.removed.is_none_or(|asked| value_name(asked) == runs.removed);
        let told = [
            (self.session.is_some() && self.session() != runs.session)
                .then(|| format!("--session {}", runs.session)),
            (self.host.is_some() && self.host() != runs.host).then(|| format!("--host {}", runs.host)),
            // Of an earlier release: it does not say.
            (!is_so && !runs.removed.is_empty()).then(|| format!("--removed {}", runs.removed)),
        ];
        told.into_iter().flatten().collect()
    }

    /// What the drainers of all nodes of a job have in common.
    pub fn session(&self) -> String {
        session(self.session.as_deref())
    }

    /// This node's name.
    pub fn host(&self) -> String {
        self.host.as_deref().map_or_else(own_host, host)
    }

    /// Where the drainers of a job meet.
    pub fn rendezvous(&self) -> PathBuf {
        rendezvous(&self.to, self.session.as_deref())
    }
}

/// The name of this node where nobody gives it another.
pub fn own_host() -> String {
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    host(&variable("SLURMD_NODENAME").unwrap_or_else(own))
}

/// A node's name, which the names of its files in the session's folder begin with.
fn host(name: &str) -> String {
    let name = plain(name);
    // The receipt of all nodes is no log of one.
    if format!("{name}{LOG_SUFFIX}") == RECEIPT { format!("_{name}") } else { name }
}

/// Where the drainers of a session meet: the one that is named, else that of this job.
pub fn rendezvous(to: &Path, named: Option<&str>) -> PathBuf {
    // Once through the user's links, if there are some: what is below is reached through none.
    let to = to.canonicalize().unwrap_or_else(|_| to.to_owned());
    to.join(OWN_FOLDER).join(session(named))
}

fn session(named: Option<&str>) -> String {
    let job = || ["SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID"].iter().find_map(|name| variable(name));
    plain(&named.map(str::to_owned).or_else(job).unwrap_or_else(|| "shell".to_owned()))
}

pub(crate) fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A name that is one component of a path, and not a hidden one: those are of who writes a file just now.
fn plain(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(kept).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_empty_or_hidden_is_one_that_is_seen() {
        assert_eq!(["", ".x", "a/b", "n1"].map(plain), ["_", "_.x", "a_b", "n1"]);
    }
}
