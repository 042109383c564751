//! `forebay status` as typed.

use clap::Args;
use model::Token;

use super::token;

/// `forebay status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Repeat every second until interrupted, on a terminal in place, with the time
    #[arg(long)]
    pub watch: bool,
    /// Only this buffer
    #[arg(long, value_parser = token::typed, add = token::candidates())]
    pub token: Option<Token>,
    /// Only buffers of this user, a name or a number
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Only buffers of this pool
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Only buffers that this node has a part or a mount of
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
}
