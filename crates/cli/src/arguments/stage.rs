//! `forebay stage` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use model::Token;

use super::token;

/// `forebay stage`.
#[derive(Debug, Subcommand)]
pub enum Stage {
    /// Copy from the parallel file system into a buffer
    In(Ask),
    /// Copy from a buffer to the parallel file system
    Out(Out),
    /// List what was staged on demand
    Status(Which),
    /// Wait for stages on demand, with progress
    Wait(Which),
    /// Stage again what failed; with a TOKEN, also the script's stages, then release the buffer
    Retry(Retry),
    /// Stop stages on demand and forget them
    Cancel(Which),
}

/// What is to be staged.
#[derive(Debug, Args)]
pub struct Ask {
    /// What to copy; with `--type list`, a file of `source destination` lines
    pub source: PathBuf,
    /// Where to
    #[arg(required_unless_present_any = ["kind"])]
    pub destination: Option<PathBuf>,
    /// What SOURCE is [default: what is found there]
    #[arg(long = "type", id = "kind", value_name = "TYPE")]
    pub kind: Option<Kind>,
    /// How.
    #[command(flatten)]
    pub common: Common,
}

/// `forebay stage out`.
#[derive(Debug, Args)]
pub struct Out {
    /// What.
    #[command(flatten)]
    pub stage: Ask,
    /// When the job has ended, not now
    #[arg(long)]
    pub at_job_end: bool,
}

/// `--type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One file
    File,
    /// The contents of a folder
    Directory,
    /// The files that a list names
    List,
}

/// Which stages.
#[derive(Debug, Args)]
pub struct Which {
    /// A file or folder of a buffer [default: the whole buffer]
    pub path: Option<PathBuf>,
    /// How.
    #[command(flatten)]
    pub common: Common,
}

/// What each of these commands takes.
#[derive(Debug, Args)]
pub struct Common {
    /// The session whose $DW_JOB_STRIPED is meant [default: the job that this runs in]
    #[arg(long, value_parser = token::typed, add = token::candidates())]
    pub token: Option<Token>,
    /// The persistent buffer that is meant, of a cluster; paths in it begin at its root, and a folder's ends in a slash
    #[arg(long, value_name = "NAME", value_parser = token::typed, add = token::candidates(), conflicts_with = "token")]
    pub persistent: Option<Token>,
    /// Wait for the end, with progress
    #[arg(long)]
    pub wait: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `forebay stage retry`.
#[derive(Debug, Args)]
pub struct Retry {
    /// The buffer's token, as `forebay status` lists it
    #[arg(value_parser = token::typed, add = token::candidates())]
    token: Option<Token>,
    /// The same, as the other commands have it
    #[arg(long = "token", value_name = "TOKEN", value_parser = token::typed, add = token::candidates(),
        conflicts_with = "token")]
    session: Option<Token>,
    /// Only what was staged on demand at this path: below a mount, or $DW_JOB_STRIPED/PATH of the buffer TOKEN
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Wait for the end, with progress
    #[arg(long, requires = "path")]
    pub wait: bool,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// The options again that say which buffer is meant, each after a space.
    pub fn words(&self) -> String {
        let of = |option: &str, token: &Option<Token>| {
            token.iter().map(|token| format!(" {option} {token}")).collect::<String>()
        };
        of("--token", &self.token) + &of("--persistent", &self.persistent)
    }
}

impl Retry {
    /// The buffer that is meant.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref().or(self.session.as_ref())
    }

    /// The stages of its path.
    pub fn which(&self) -> Which {
        let common =
            Common { token: self.token().cloned(), persistent: None, wait: self.wait, json: self.json };
        Which { path: self.path.clone(), common }
    }
}

impl Stage {
    /// The persistent buffer that it names.
    pub fn persistent(&self) -> Option<&Token> {
        let common = match self {
            Stage::In(ask) => &ask.common,
            Stage::Out(out) => &out.stage.common,
            Stage::Status(which) | Stage::Wait(which) | Stage::Cancel(which) => &which.common,
            Stage::Retry(_) => return None,
        };
        common.persistent.as_ref()
    }

    /// Whether the result is for programs.
    pub fn json(&self) -> bool {
        match self {
            Stage::In(ask) => ask.common.json,
            Stage::Out(out) => out.stage.common.json,
            Stage::Status(which) | Stage::Wait(which) | Stage::Cancel(which) => which.common.json,
            Stage::Retry(retry) => retry.json,
        }
    }
}
