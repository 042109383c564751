//! `forebay local` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `forebay local`.
#[derive(Debug, Subcommand)]
pub enum Local {
    /// Make the volume of a job and mount it for its user
    Create {
        /// The job
        id: String,
        /// Its user's name
        #[arg(long)]
        user: String,
        /// Its user's number
        #[arg(long)]
        uid: u32,
        /// Its user's group [default: the same number]
        #[arg(long)]
        gid: Option<u32>,
        /// How much it holds, as 1.4TB [default: as the node is configured]
        #[arg(long, value_name = "SIZE")]
        capacity: Option<String>,
        #[command(flatten)]
        node: LocalNode,
    },
    /// Take the volume of a job from its user: it is drained, if that was asked for, and discarded
    Release {
        /// The job
        id: String,
        #[command(flatten)]
        node: LocalNode,
    },
    /// Show the volumes of this node, and what keeps them
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        node: LocalNode,
    },
}

/// The node service of this host.
#[derive(Debug, Args)]
pub struct LocalNode {
    /// Its socket
    #[arg(
        long,
        value_name = "FILE",
        env = "FOREBAY_NODE_SOCKET",
        default_value = crate::env::NODE_SOCKET
    )]
    pub node: PathBuf,
}
