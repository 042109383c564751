//! `forebay scrub` and `forebay fsck` as typed.

use clap::Args;
use model::Token;

use super::token;

/// `forebay scrub`.
#[derive(Debug, Args)]
pub struct Scrub {
    /// The buffer's token, as `forebay status` lists it
    #[arg(value_parser = token::typed, add = token::candidates())]
    pub token: Token,
    /// Read at most so many bytes a second on each node, as 200MiB (0: no bound) [default: 256MiB of each namespace]
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `forebay fsck`.
#[derive(Debug, Args)]
pub struct Fsck {
    /// The buffer's token, as `forebay status` lists it
    #[arg(value_parser = token::typed, add = token::candidates())]
    pub token: Token,
    /// Remove what belongs to no file, and take what lost its checksums as it is
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
