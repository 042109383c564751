//! `forebay check` as typed.

use std::path::PathBuf;

use clap::Args;

/// `forebay check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The batch script
    pub script: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
