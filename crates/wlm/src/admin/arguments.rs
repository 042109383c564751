//! The command line of `dwcli`.

use clap::{Args, Parser, Subcommand};

use crate::stat::What;

/// Make, list, change and remove buffers and nodes.
#[derive(Debug, Parser)]
#[command(name = "dwcli", version)]
pub struct Command {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a persistent buffer
    #[command(subcommand)]
    Create(Create),
    /// List objects, as dwstat does
    Ls {
        /// Which
        #[arg(value_enum)]
        what: What,
        /// Print sizes in bytes
        #[arg(short, long)]
        bytes: bool,
    },
    /// Remove a session, an instance or a node
    #[command(subcommand)]
    Rm(Remove),
    /// Take a node out of use, or into use again
    #[command(subcommand)]
    Update(Update),
    /// Run or list the stages of a session
    #[command(subcommand)]
    Stage(Stage),
}

/// What to make.
#[derive(Debug, Subcommand)]
pub enum Create {
    /// A persistent buffer, for use by `#DW persistentdw name=LABEL`
    Instance(CreateInstance),
}

/// A persistent buffer.
#[derive(Debug, Args)]
pub struct CreateInstance {
    /// Its name; begins with a letter
    #[arg(short, long)]
    pub label: String,
    /// Its size, as 10GiB
    #[arg(short, long)]
    pub capacity: String,
    /// Its pool [default: the first]
    #[arg(short, long)]
    pub pool: Option<String>,
    /// How it is shared between nodes: stripe, private, or both with a comma between
    #[arg(long, default_value = "stripe", value_delimiter = ',')]
    pub access_mode: Vec<String>,
    /// Let every user's jobs use it
    #[arg(long)]
    pub public: bool,
    /// On how many nodes each byte is to be: none (one) or mirror (two) [default: as its pool has it]
    #[arg(long)]
    pub redundancy: Option<String>,
    /// Its owner's user id; only for operators [default: yourself]
    #[arg(short, long, requires = "group")]
    pub owner: Option<u32>,
    /// Its owner's group id
    #[arg(short, long)]
    pub group: Option<u32>,
}

/// What to remove.
#[derive(Debug, Subcommand)]
pub enum Remove {
    /// A session and everything in it
    Session(Numbered),
    /// An instance with its session
    Instance(Numbered),
    /// The record of a node that is offline and holds nothing
    Node(Named),
}

/// An object by its number.
#[derive(Debug, Args)]
pub struct Numbered {
    /// Its number, the first column of `dwcli ls`
    #[arg(short, long)]
    pub id: u64,
    /// Destroy also what is still to be staged out
    #[arg(long)]
    pub hurry: bool,
}

/// A node by its name.
#[derive(Debug, Args)]
pub struct Named {
    /// Its name
    #[arg(short, long)]
    pub name: String,
}

/// What to change.
#[derive(Debug, Subcommand)]
pub enum Update {
    /// A node
    Node(UpdateNode),
}

/// A change of a node.
#[derive(Debug, Args)]
#[group(skip)]
pub struct UpdateNode {
    /// Its name
    #[arg(short, long)]
    pub name: String,
    /// Give it no new fragments and mounts
    #[arg(long, conflicts_with = "no_drain", required_unless_present = "no_drain")]
    pub drain: bool,
    /// Use it again
    #[arg(long, visible_alias = "resume")]
    pub no_drain: bool,
    /// Why it is drained; shown in every status
    #[arg(long, default_value = "drained by dwcli", conflicts_with = "no_drain")]
    pub reason: String,
}

/// Stages.
#[derive(Debug, Subcommand)]
pub enum Stage {
    /// Run every stage_in of the session that is not complete
    In(OfSession),
    /// Run every stage_out of the session that is not complete
    Out(OfSession),
    /// List the session's stages and what is left of them
    Query(OfSession),
}

/// A session by its number.
#[derive(Debug, Args)]
pub struct OfSession {
    /// Its number, the first column of `dwcli ls sessions`
    #[arg(short, long)]
    pub session: u64,
    /// One of its configurations; taken for the sake of old scripts
    #[arg(short, long)]
    pub configuration: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Command::command().debug_assert();
    }

    #[test]
    fn datawarps_spellings_are_understood() {
        for line in [
            "create instance --label mine --capacity 1GiB --pool wlm_pool",
            "ls nodes",
            "rm session -i 7",
            "rm session --id 7 --hurry",
            "update node --name n1 --drain --reason disk",
            "update node --name n1 --no-drain",
            "stage query --session 7 --configuration 8",
        ] {
            let words = std::iter::once("dwcli").chain(line.split_whitespace());
            Command::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        assert!(Command::try_parse_from(["dwcli", "update", "node", "--name", "n1"]).is_err());
    }
}
