//! Where the standard streams of a step's ranks are: `srun --input`, `--output` and `--error`.
//!
//! One file for all ranks is opened once, by srun; its ranks, or their launcher, inherit it. What a rank has for itself
//! is opened by whoever starts that rank.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use model::file_pattern::{self, Values};
use model::sbatch::Streams;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::{env, redirection};

/// The streams of a step.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Redirections {
    input: Place,
    output: Place,
    error: Place,
    append: bool,
    /// The step's number.
    step: u32,
}

/// Where one stream is.
#[derive(Debug, Default, Serialize, Deserialize)]
enum Place {
    /// Where srun's own is.
    #[default]
    Inherited,
    /// `none`.
    Nowhere,
    /// A number: that rank's is where srun's own is, the others' are nowhere.
    OfRank(u32),
    /// One file for all ranks.
    File(String),
    /// A file for each rank, by this pattern.
    FilePerRank(String),
}

/// Files that all ranks share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    output: Option<File>,
    error: Option<File>,
}

impl Redirections {
    /// What the options of a step of `count` ranks ask for. The step is the job's number `step`.
    pub(super) fn new(streams: &Streams, count: u32, step: u32) -> Redirections {
        let place =
            |text: &Option<String>| text.as_deref().map_or(Place::Inherited, |text| place(text, count));
        // Errors go where the output goes, unless something is said of them.
        let error = streams.error.as_ref().or(streams.output.as_ref()).cloned();
        Redirections {
            input: place(&streams.input),
            output: place(&streams.output),
            error: place(&error),
            append: streams.append,
            step,
        }
    }

    /// Opens what all ranks share.
    ///
    /// # Errors
    /// A file cannot be made.
    pub(super) fn shared(&self) -> Result<Shared, Failure> {
        let open = |place: &Place, option: &str| match place {
            Place::File(pattern) => {
                redirection::to(Path::new(&self.name(pattern, 0)), self.append, option).map(Some)
            }
            _ => Ok(None),
        };
        let output = open(&self.output, "--output")?;
        let error = match (&self.output, &self.error, &output) {
            (Place::File(one), Place::File(other), Some(output)) if one == other => {
                Some(output.try_clone().map_err(cannot_share)?)
            }
            _ => open(&self.error, "--error")?,
        };
        Ok(Shared { output, error })
    }

    /// Gives `command` the streams that `rank` has for itself; names start in `folder`.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(super) fn give_own(&self, command: &mut Command, rank: u32, folder: &Path) -> Result<(), Failure> {
        match &self.input {
            Place::Inherited => {}
            Place::OfRank(wanted) if *wanted == rank => {}
            Place::OfRank(_) | Place::Nowhere => drop(command.stdin(Stdio::null())),
            Place::File(pattern) | Place::FilePerRank(pattern) => {
                let path = folder.join(self.name(pattern, rank));
                command.stdin(redirection::from(&path, "--input")?);
            }
        }
        if let Some(output) = self.own(&self.output, rank, folder, "--output")? {
            if self.error.is_per_rank_as(&self.output) {
                command.stderr(output.try_clone().map_err(cannot_share)?);
            }
            command.stdout(output);
        }
        if !self.error.is_per_rank_as(&self.output)
            && let Some(error) = self.own(&self.error, rank, folder, "--error")?
        {
            command.stderr(error);
        }
        Ok(())
    }

    fn own(&self, place: &Place, rank: u32, folder: &Path, option: &str) -> Result<Option<File>, Failure> {
        let path = match place {
            Place::Inherited | Place::File(_) => return Ok(None),
            Place::OfRank(wanted) if *wanted == rank => return Ok(None),
            Place::OfRank(_) | Place::Nowhere => "/dev/null".into(),
            Place::FilePerRank(pattern) => folder.join(self.name(pattern, rank)),
        };
        redirection::to(&path, self.append, option).map(Some)
    }

    fn name(&self, pattern: &str, rank: u32) -> String {
        Values { rank, step: Some(self.step), ..env::pattern_values() }.expand(pattern)
    }
}

impl Place {
    fn is_per_rank_as(&self, other: &Place) -> bool {
        matches!((self, other), (Place::FilePerRank(one), Place::FilePerRank(other)) if one == other)
    }
}

impl Shared {
    /// Gives `command` what all ranks share.
    ///
    /// # Errors
    /// There are too many open files.
    pub(super) fn give(&self, command: &mut Command) -> Result<(), Failure> {
        if let Some(output) = &self.output {
            command.stdout(output.try_clone().map_err(cannot_share)?);
        }
        if let Some(error) = &self.error {
            command.stderr(error.try_clone().map_err(cannot_share)?);
        }
        Ok(())
    }
}

fn place(text: &str, count: u32) -> Place {
    let rank = text.parse().ok().filter(|rank| *rank < count);
    match (text, rank) {
        ("all", _) => Place::Inherited,
        ("none", _) => Place::Nowhere,
        (_, Some(rank)) => Place::OfRank(rank),
        (pattern, None) if file_pattern::is_per_rank(pattern) => Place::FilePerRank(pattern.to_owned()),
        (pattern, None) => Place::File(pattern.to_owned()),
    }
}

fn cannot_share(error: std::io::Error) -> Failure {
    Failure::unavailable(format!("open a step's output for each rank: {error}"), "look at `ulimit -n`")
}
