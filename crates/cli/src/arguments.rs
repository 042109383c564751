//! The command line as typed. The commands with commands of their own have a file each.

mod buffer;
mod check;
mod drain;
mod integrity;
mod local;
#[cfg(test)]
mod manual;
mod rekey;
mod run;
pub mod srun;
mod stage;
mod status;
mod token;
mod with;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Args, Parser, Subcommand, ValueEnum};
use model::Token;
use wire::control::VolumeKind;

pub use self::buffer::Buffer;
pub use self::check::Check;
pub use self::drain::{Drain, DrainHere, DrainOf};
pub use self::integrity::{Fsck, Scrub};
pub use self::local::{Local, LocalNode};
pub use self::rekey::Rekey;
pub use self::run::Run;
pub use self::stage::{Ask, Common, Kind, Stage, Which};
pub use self::status::Status;
pub use self::token::{token, token_or_usage};
pub use self::with::With;

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
    Run(Box<Run>),
    /// Run one command with a buffer around it: stage in, run it, stage out
    With(Box<With>),
    /// Say everything that is wrong with a batch script, without running it
    Check(Check),
    /// List buffers, also those that an interrupted run left
    Status(Status),
    /// Destroy a buffer and everything in it
    Rm(Rm),
    /// Compare everything in a buffer with its checksums
    Scrub(Scrub),
    /// Scrub a buffer, and compare its metadata with what its nodes store
    Fsck(Fsck),
    /// Give a buffer another key while jobs use it (operators)
    Rekey(Rekey),
    /// Give up a storage node that is lost for good
    #[command(subcommand)]
    Node(Node),
    /// Stage files in and out while a buffer lives; retry what failed
    #[command(subcommand)]
    Stage(Stage),
    /// Copy what is closed in a folder on this node's flash to the parallel file system, in the background
    #[command(subcommand, arg = without_buffers())]
    Drain(Box<Drain>),
    /// Private volumes on this node's flash (root; for the prolog and epilog of a workload manager)
    #[command(subcommand, arg = without_buffers())]
    Local(Local),
    /// Mount a buffer at PATH for interactive use, or a persistent one of a cluster
    Mount(Mount),
    /// Unmount an interactive buffer; what is in it is kept
    Umount(Umount),
    /// Start the ranks of a job step (what `srun` is inside a script)
    #[command(disable_help_flag = true, arg = without_buffers())]
    Srun {
        /// srun's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        words: Vec<OsString>,
    },
    /// What `with --on-allocation` starts on each host
    #[command(hide = true)]
    Attend {
        /// Only take away what one that was killed has left
        #[arg(long)]
        clear: bool,
    },
    /// What an MPI launcher starts for each rank
    #[command(hide = true, disable_help_flag = true)]
    SrunRank {
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// `--dir`, taken and not shown, of commands that have no buffers.
fn without_buffers() -> Arg {
    Arg::new("dir").long("dir").value_parser(clap::value_parser!(PathBuf)).global(true).hide(true)
}

/// `forebay rm`.
#[derive(Debug, Args)]
pub struct Rm {
    /// The buffer's token, as `forebay status` lists it
    #[arg(value_parser = token::typed, add = token::candidates())]
    pub token: Token,
    /// Unmount it even where programs have files open in it
    #[arg(long)]
    pub force: bool,
    /// Give up what is to be staged out and is not
    #[arg(long)]
    pub discard: bool,
}

/// `forebay mount`.
#[derive(Debug, Args)]
pub struct Mount {
    /// An empty folder, or one to be made; with `--persistent`, a link to be made to where the buffer is mounted
    #[arg(required_unless_present = "persistent")]
    pub path: Option<PathBuf>,
    /// How much, as 10GiB
    #[arg(long, value_name = "SIZE", required_unless_present_any = ["token", "persistent"])]
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
    #[arg(long, value_parser = token::typed, add = token::candidates(),
        conflicts_with_all = ["capacity", "nodes", "access_mode", "volume", "mirror"])]
    pub token: Option<Token>,
    /// Mount this persistent buffer of a cluster on this node, as a job's
    #[arg(long, value_name = "NAME", value_parser = token::typed, add = token::candidates(),
        conflicts_with_all = ["capacity", "nodes", "access_mode", "volume", "mirror", "token", "shared"])]
    pub persistent: Option<Token>,
    /// Let the buffer be mounted at several places: `mount PATH --token TOKEN` for each further one. Names and pages
    /// are then not kept in memory
    #[arg(long)]
    pub shared: bool,
}

/// `forebay node`.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Other nodes take the places of what it had, filled from the mirrors; it is never used for that again. On one
    /// machine the node itself makes again what it does not have any more, from the mirrors
    Lost {
        /// The node's name, as `forebay status` has it
        name: String,
        /// Also where nobody knows what the mirror lacks: files that had data there are then lost, by name, and where
        /// the copy of the names may lack some, these too. Repeat the command with it where it says so
        #[arg(long)]
        accept_loss: bool,
        /// Print what became of each buffer as one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `forebay umount`.
#[derive(Debug, Args)]
pub struct Umount {
    /// Where it is mounted, or the link to that
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
        assert_eq!(run.job.nodes, Some(4));
        assert_eq!(run.arguments, ["a", "--nodes", "9"]);
    }

    #[test]
    fn the_help_of_commands_without_buffers_has_no_state_folder_and_they_take_one() {
        for words in [&["drain", "start"][..], &["drain", "wait"], &["local", "list"], &["srun"], &["rm"]] {
            let mut whole = Arguments::command();
            whole.build();
            let below = words.iter().fold(&whole, |command, word| command.find_subcommand(word).unwrap());
            let help = below.clone().render_long_help().to_string();
            assert_eq!(help.contains("--dir"), words == ["rm"], "{words:?}: {help}");
        }
        let parsed = Arguments::try_parse_from(["forebay", "local", "list", "--dir", "/b"]).unwrap();
        assert_eq!(parsed.dir, Some("/b".into()));
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
        assert_eq!(resume(&["--resume", "3"]).unwrap(), Some(Some(Token::literal("3"))));
        assert_eq!(resume(&["job.sh"]).unwrap(), None);
        assert!(resume(&[]).is_err());
        assert!(resume(&["--resume", "3", "job.sh"]).is_err());
    }
}
