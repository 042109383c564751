//! `forebay drain` as typed.

use std::path::PathBuf;

use ::drain::settings::Settings;
use clap::{Args, Subcommand};

/// `forebay drain`.
#[derive(Debug, Subcommand)]
pub enum Drain {
    /// Begin; nothing to do where it has begun
    Start(Settings),
    /// Show how the drainers of all nodes stand
    Status(DrainOf),
    /// Wait until everything that is closed is on the parallel file system, on all nodes; else exit with 74
    Wait {
        #[command(flatten)]
        of: DrainOf,
        /// Give up after so many seconds
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// Wait likewise, then publish NAME.committed, and `latest` as a link to NAME
    Commit {
        /// A file or folder below the folder on the parallel file system, or any other name
        name: String,
        #[command(flatten)]
        of: DrainOf,
        /// Give up after so many seconds
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
        /// Also where nothing of that name was drained
        #[arg(long)]
        empty: bool,
    },
    /// List every file with its checksum: what is on the parallel file system, and what is not
    Receipt(DrainOf),
    /// Copy nothing on this node until further notice
    Pause(DrainHere),
    /// Go on after a pause
    Resume(DrainHere),
    /// End on this node; what is not copied stays there, and `start` goes on
    Stop(DrainHere),
}

/// The drainers of all nodes.
#[derive(Debug, Args)]
pub struct DrainOf {
    /// Where they drain to
    #[arg(long, value_name = "FOLDER", env = "PFS_DIR")]
    pub to: PathBuf,
    /// What they have in common [default: the job's id, else `shell`]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The drainer on this node.
#[derive(Debug, Args)]
pub struct DrainHere {
    /// What it drains
    #[arg(long, value_name = "FOLDER", env = "PERSIST_DIR")]
    pub from: PathBuf,
    /// Where it keeps what it has done [default: .forebay-drain in the drained folder]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}
