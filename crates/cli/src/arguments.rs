//! The command line as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use drain::settings::Settings;
use wire::control::VolumeKind;

use crate::env;
use crate::failure::Failure;

/// Burst buffers for job scripts with #DW and #BB directives.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, arg_required_else_help = true)]
pub struct Arguments {
    /// Where buffers live [default: $FOREBAY_DIR, else $XDG_STATE_HOME/forebay, else ~/.local/state/forebay]
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a batch script with a buffer: stage in, run it, stage out
    Run(Run),
    /// List buffers, also those that an interrupted run left
    Status(Status),
    /// Destroy a buffer and everything in it
    Rm(Rm),
    /// Compare everything in a buffer with its checksums
    Scrub(Scrub),
    /// Scrub a buffer, and compare its metadata with what its nodes store
    Fsck(Fsck),
    /// Give up a storage node of a cluster that is lost for good
    #[command(subcommand)]
    Node(Node),
    /// Stage files in and out while a buffer lives; retry what failed
    #[command(subcommand)]
    Stage(Stage),
    /// Copy what is closed in a folder on this node's flash to the parallel file system, in the background
    #[command(subcommand)]
    Drain(Box<Drain>),
    /// Private volumes on this node's flash (root; for the prolog and epilog of a workload manager)
    #[command(subcommand)]
    Local(Local),
    /// Mount a buffer at PATH for interactive use
    Mount(Mount),
    /// Unmount an interactive buffer; what is in it is kept
    Umount(Umount),
    /// Start the ranks of a job step (what `srun` is inside a script)
    #[command(disable_help_flag = true)]
    Srun {
        /// srun's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        words: Vec<OsString>,
    },
    /// What an MPI launcher starts for each rank
    #[command(hide = true, disable_help_flag = true)]
    SrunRank {
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// `forebay run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Go on with an interrupted run [default: the newest]
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, conflicts_with_all = ["nodes", "volume", "keep"])]
    pub resume: Option<Option<String>>,
    /// Split the buffer over N storage processes [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Where the buffer's bytes live [default: image where it works, else directory]
    #[arg(long)]
    pub volume: Option<Volume>,
    /// Print the summary as one JSON object on the last line of standard output
    #[arg(long)]
    pub json: bool,
    /// Keep the buffer after a complete stage-out
    #[arg(long)]
    pub keep: bool,
    /// The batch script
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub script: Option<PathBuf>,
    /// Its arguments; write `--` before them if one begins with a hyphen
    pub arguments: Vec<String>,
}

/// `forebay status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Repeat every second until interrupted
    #[arg(long)]
    pub watch: bool,
}

/// `forebay rm`.
#[derive(Debug, Args)]
pub struct Rm {
    /// The buffer's token, as `forebay status` lists it
    pub token: String,
    /// Unmount it even where programs have files open in it
    #[arg(long)]
    pub force: bool,
}

/// `forebay scrub`.
#[derive(Debug, Args)]
pub struct Scrub {
    /// The buffer's token, as `forebay status` lists it
    pub token: String,
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
    pub token: String,
    /// Remove what belongs to no file, and take what lost its checksums as it is
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

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
    /// The session whose $DW_JOB_STRIPED is meant [default: the job that this runs in]
    #[arg(long)]
    pub token: Option<String>,
    /// Wait for the end, with progress
    #[arg(long)]
    pub wait: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
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
    /// The session [default: the job that this runs in]
    #[arg(long)]
    pub token: Option<String>,
    /// Wait for the end, with progress
    #[arg(long)]
    pub wait: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The session's token, as it was typed or as the job has it.
pub fn token(typed: Option<&str>) -> Option<String> {
    typed.map(str::to_owned).or_else(env::job_token)
}

/// The same.
///
/// # Errors
/// Neither; `advice` says what to name.
pub fn token_or_usage(typed: Option<&str>, advice: &str) -> Result<String, Failure> {
    token(typed).ok_or_else(|| Failure::usage("it is not said which buffer is meant", advice))
}

/// `forebay stage retry`.
#[derive(Debug, Args)]
pub struct Retry {
    /// The buffer's token, as `forebay status` lists it
    pub token: Option<String>,
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

impl Retry {
    /// The stages of its path.
    pub fn which(&self) -> Which {
        Which { path: self.path.clone(), token: self.token.clone(), wait: self.wait, json: self.json }
    }
}

impl Stage {
    /// Whether the result is for programs.
    pub fn json(&self) -> bool {
        match self {
            Stage::In(ask) => ask.json,
            Stage::Out(out) => out.stage.json,
            Stage::Status(which) | Stage::Wait(which) | Stage::Cancel(which) => which.json,
            Stage::Retry(retry) => retry.json,
        }
    }
}

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
        default_value = "/var/lib/forebay/node/node.sock"
    )]
    pub node: PathBuf,
}

/// `forebay mount`.
#[derive(Debug, Args)]
pub struct Mount {
    /// An empty folder, or one to be made
    pub path: PathBuf,
    /// How much, as 10GiB
    #[arg(long, value_name = "SIZE", required_unless_present = "token")]
    pub capacity: Option<String>,
    /// Split the buffer over N storage processes [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// One namespace striped over all storage processes, or one for this machine
    #[arg(long, default_value = "striped")]
    pub access_mode: Mode,
    /// Where the buffer's bytes live [default: image where it works, else directory]
    #[arg(long)]
    pub volume: Option<Volume>,
    /// Keep each byte on two of the storage processes (`redundancy=mirror`), which takes twice the room
    #[arg(long)]
    pub mirror: bool,
    /// Mount this kept buffer again instead of a new one
    #[arg(long, conflicts_with_all = ["capacity", "nodes", "access_mode", "volume", "mirror"])]
    pub token: Option<String>,
    /// Let the buffer be mounted at several places: `mount PATH --token TOKEN` for each further one. Names and pages
    /// are then not kept in memory
    #[arg(long)]
    pub shared: bool,
}

/// `forebay node`.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Other nodes take the places of what it had, filled from the mirrors; it is never used for that again
    Lost {
        /// The node's name, as `forebay status` has it
        name: String,
        /// Print what became of each buffer as one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `forebay umount`.
#[derive(Debug, Args)]
pub struct Umount {
    /// Where it is mounted
    pub path: PathBuf,
    /// Unmount even where programs have files open in it
    #[arg(long)]
    pub force: bool,
}

/// `--volume`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Volume {
    /// A folder; needs no privilege
    Directory,
    /// An XFS image on a loop device; needs root
    Image,
}

impl From<Volume> for VolumeKind {
    fn from(volume: Volume) -> VolumeKind {
        match volume {
            Volume::Directory => VolumeKind::Directory,
            Volume::Image => VolumeKind::Image,
        }
    }
}

/// `--access-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// Files striped over all storage processes
    Striped,
    /// Each file on one storage process
    Private,
}

impl Mode {
    /// As directives have it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Striped => "striped",
            Mode::Private => "private",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_manual_page_has_every_command_and_option() {
        fn assert_described(page: &str, command: &clap::Command) {
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("--{option}")), "{}: no --{option}", command.get_name());
            }
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                assert!(page.contains(below.get_name()), "no {}", below.get_name());
                assert_described(page, below);
            }
        }
        let page = include_str!("../../../packaging/man/forebay.1").replace("\\-", "-");
        assert_described(&page, &Arguments::command());
    }

    #[test]
    fn options_are_ours_wherever_they_stand_up_to_two_dashes() {
        let words = ["forebay", "run", "job.sh", "a", "--nodes", "4", "--dir", "/b", "--", "--nodes", "9"];
        let parsed = Arguments::try_parse_from(words).unwrap();
        assert_eq!(parsed.dir, Some("/b".into()));
        let Command::Run(run) = parsed.command else { panic!("not a run") };
        assert_eq!(run.nodes, Some(4));
        assert_eq!(run.arguments, ["a", "--nodes", "9"]);
    }

    #[test]
    fn resume_takes_a_token_or_none_and_no_script() {
        let resume = |words: &[&str]| {
            Arguments::try_parse_from([&["forebay", "run"], words].concat()).map(|parsed| {
                match parsed.command {
                    Command::Run(run) => run.resume,
                    _ => panic!("not a run"),
                }
            })
        };
        assert_eq!(resume(&["--resume"]).unwrap(), Some(None));
        assert_eq!(resume(&["--resume", "3"]).unwrap(), Some(Some("3".into())));
        assert_eq!(resume(&["job.sh"]).unwrap(), None);
        assert!(resume(&[]).is_err());
        assert!(resume(&["--resume", "3", "job.sh"]).is_err());
    }
}
