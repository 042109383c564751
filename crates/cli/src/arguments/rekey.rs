//! `forebay rekey` as typed.

use clap::Args;
use model::Token;

use super::token;

/// `forebay rekey`.
#[derive(Debug, Args)]
pub struct Rekey {
    /// The buffer's token, as `forebay status` lists it
    #[arg(value_parser = token::typed, add = token::candidates())]
    pub token: Token,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
