//! The `#DW` and `#BB` directives of a job script: what they say, and where they are wrong.
//!
//! ```text
//! #DW jobdw        type=scratch|cache  access_mode=MODE[,MODE]  capacity=SIZE  [pool=NAME]  [pfs=PATH]
//!                  [coherence=posix|commit]  [drain=on-close]  [redundancy=none|mirror]
//! #DW persistentdw name=NAME
//! #DW stage_in     type=file|directory  source=PFSPATH     destination=BUFFERPATH
//! #DW stage_out    type=file|directory  source=BUFFERPATH  destination=PFSPATH
//! #DW stage_in     type=list  source=PFSPATH                (stage_out likewise)
//! #DW swap         SIZE  [pool=NAME]
//! #BB create_persistent  name=NAME  capacity=SIZE  [access_mode=MODE[,MODE]]  [type=scratch|cache]  [pool=NAME]
//! #BB destroy_persistent name=NAME  [hurry]
//!
//! MODE = striped | private | ldbalance, each with optional modifiers: striped(client_cache=yes)
//! SIZE = see `size`, or a number of nodes: 2nodes
//! ```
//!
//! - A directive line begins with exactly `#DW` or `#BB` in the first column and white space after it. It counts
//!   everywhere in the script, also after the first command (DataWarp's own tools read it so; Slurm stops there) and
//!   also inside a here-document, which cannot be told apart without running the shell.
//! - A line that was nearly one (`#dw jobdw`, an indented `#DW jobdw`, `#DWjobdw`) is an error, not a comment.
//! - A backslash as the last character joins the next line, which must repeat the prefix.
//! - Options come in any order; a value ends at white space; quotes mean nothing. `access=` is `access_mode=`.
//! - A word that begins with `#` begins a comment, to the end of its line.
//! - Two `jobdw` lines are one buffer with the sum of their sizes, where they are alike but for their access modes.
//! - `%` symbols are replaced ([`crate::symbols`]). White space that comes from a symbol does not end a value.
//! - Shell variables are not replaced: only `$DW_...` paths are known ([`parse_buffer_path`]).
//!
//! **Invariant:** every directive line becomes a [`Directive`] or at least one [`ScriptError`]; none is ignored.

mod behaviour;
mod buffer_path;
mod check;
mod hints;
mod instance;
mod lines;
mod list;
mod mistake;
mod options;
mod paths;
mod shell;
mod stage;
mod unsupported;
mod values;

pub use behaviour::{Behaviour, FragmentBehaviour, MountBehaviour};
pub use buffer_path::parse_buffer_path;
pub use hints::hints;
pub use instance::namespaces;
pub use list::{ListEntry, ListLineError, parse_list_line};
pub use mistake::{ScriptError, ScriptErrors};
pub use unsupported::unsupported;

use crate::phase::{AccessMode, Direction, Redundancy, StageKind};
use crate::{Token, buffer::BufferRef, symbols::Symbols};
use lines::{Family, Item, Statement, Word};
use options::closest;

/// The directives of the `#DW` family.
const KEYWORDS_DW: [&str; 5] = ["jobdw", "persistentdw", "stage_in", "stage_out", "swap"];

/// The directives of the `#BB` family.
const KEYWORDS_BB: [&str; 2] = ["create_persistent", "destroy_persistent"];

/// The directives of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// In the order of the script.
    pub directives: Vec<Located>,
}

/// A directive and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its first line, from 1.
    pub line: u32,
    /// What it says.
    pub directive: Directive,
    /// Where each of its options stands, in the order of the script; `access=` under the name `access_mode`.
    pub options: Vec<OptionPlace>,
}

/// Where an option stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionPlace {
    /// Its name, as `capacity`.
    pub name: String,
    /// Its line, from 1.
    pub line: u32,
    /// The column of its first character, from 1, counted in characters.
    pub column: u32,
}

/// One directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// An instance that lives as long as the job.
    JobDw(JobDw),
    /// Use of a persistent instance.
    PersistentDw {
        /// The instance's name.
        name: Token,
    },
    /// A copy from the PFS into the buffer before the job.
    StageIn(Stage),
    /// A copy from the buffer to the PFS after the job.
    StageOut(Stage),
    /// Swap space on flash for every compute node.
    Swap {
        /// For each node.
        capacity: Capacity,
        /// The pool to allocate it from; `None` is the default pool.
        pool: Option<String>,
    },
    /// Creation of an instance that outlives the job.
    CreatePersistent(CreatePersistent),
    /// Destruction of a persistent instance.
    DestroyPersistent {
        /// The instance's name.
        name: Token,
        /// Without waiting for pending stage-outs.
        hurry: bool,
    },
}

/// What an instance is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceType {
    /// A file system of its own.
    Scratch,
    /// A cache in front of a PFS directory.
    Cache,
}

/// How a namespace is to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedMode {
    /// One namespace for all compute nodes, files striped over all storage nodes.
    Striped,
    /// A namespace for each compute node.
    Private,
    /// Read-only copies on every storage node.
    Ldbalance,
}

/// One entry of `access_mode=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessModeRequest {
    /// The mode.
    pub mode: RequestedMode,
    /// What stands in its parentheses, as `("client_cache", "yes")`, in the script's order.
    pub modifiers: Vec<(String, String)>,
}

/// How much space; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// That many bytes, before rounding up to grains.
    Bytes(u64),
    /// All the space of that many storage nodes.
    Nodes(u64),
}

/// `#DW jobdw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDw {
    /// Scratch or cache.
    pub kind: InstanceType,
    /// At least one; each mode at most once.
    pub access_modes: Vec<AccessModeRequest>,
    /// How much.
    pub capacity: Capacity,
    /// The pool to allocate it from; `None` is the default pool.
    pub pool: Option<String>,
    /// The cached directory: present for a cache, absent for scratch.
    pub pfs: Option<String>,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// Options that DataWarp is known to have and that change how the instance behaves, as
    /// `("write_window_length", "86400")`, unchecked, in the script's order.
    pub options: Vec<(String, String)>,
}

/// `#BB create_persistent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePersistent {
    /// The new instance's name.
    pub name: Token,
    /// How much.
    pub capacity: Capacity,
    /// Empty where the script leaves it to the site.
    pub access_modes: Vec<AccessModeRequest>,
    /// `None` where the script leaves it to the site.
    pub kind: Option<InstanceType>,
    /// The pool to allocate it from; `None` is the default pool.
    pub pool: Option<String>,
}

impl CreatePersistent {
    /// The modifier of an access mode that says whether other users' jobs may use a buffer:
    /// `access_mode=striped(shared=no)`. Forebay's own.
    pub const SHARED: &str = "shared";

    /// The modifier that says on how many nodes the bytes of its files are to be:
    /// `access_mode=striped(redundancy=mirror)`. Forebay's own. A workload manager hands modifiers on, and no option
    /// that it does not know.
    pub const REDUNDANCY: &str = "redundancy";

    /// On how many nodes the bytes of its files are to be; `None` where the script leaves it to the pool.
    pub fn redundancy(&self) -> Option<Redundancy> {
        let mut modifiers = self.access_modes.iter().flat_map(|request| &request.modifiers);
        let (_, value) = modifiers.find(|(name, _)| name == Self::REDUNDANCY)?;
        values::redundancy(value).ok()
    }

    /// Whether every user's jobs may use it; `None` where the script leaves it to the site.
    pub fn shared(&self) -> Option<bool> {
        let mut modifiers = self.access_modes.iter().flat_map(|request| &request.modifiers);
        modifiers.find(|(name, _)| name == Self::SHARED).map(|(_, value)| value == "yes")
    }
}

/// `#DW stage_in` or `#DW stage_out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What the source names.
    pub kind: StageKind,
    /// As the directive has it, symbols replaced.
    pub source: String,
    /// As the directive has it, symbols replaced; for a list, the list file again.
    pub destination: String,
    /// The PFS side: an absolute path. For a list, the list file.
    pub pfs: String,
    /// The buffer side; `None` for a list, whose lines name it.
    pub buffer: Option<BufferPath>,
}

/// A place in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPath {
    /// Which namespace.
    pub root: BufferRoot,
    /// Below the root: no leading slash, no empty, `.` or `..` component; a trailing slash is kept. Empty is the root.
    pub path: String,
}

/// The namespace that a `$DW_...` path begins with. Displays as it is written: `$DW_JOB_STRIPED`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BufferRoot {
    /// The buffer.
    pub buffer: BufferRef,
    /// Which of its namespaces.
    pub access_mode: AccessMode,
}

/// Reads the directives of a script; one without directives gives an empty list.
///
/// # Errors
/// Every mistake of the script, in its order: see [`ScriptErrors`].
pub fn parse(text: &str, symbols: &Symbols) -> Result<Script, ScriptErrors> {
    let (script, errors) = understood(text, symbols);
    if errors.is_empty() { Ok(script) } else { Err(ScriptErrors(errors)) }
}

/// The directives of a script that are well written, also where others are not, and every mistake, in its order.
pub fn understood(text: &str, symbols: &Symbols) -> (Script, Vec<ScriptError>) {
    let mut errors = Vec::new();
    let mut script = Script::default();
    let statements = lines::statements(text, symbols, &mut errors);
    // Without the line that makes the buffer, every stage would be told again that there is none.
    let mut instances_known = errors.is_empty();
    for statement in &statements {
        match read(statement, &mut errors) {
            Some(located) => script.directives.push(located),
            None => instances_known &= statement.is_stage(),
        }
    }
    errors.extend(check::repetitions(&script));
    errors.extend(check::destinations_are_one_each(&script));
    if instances_known {
        errors.extend(check::stages_have_an_instance(&script));
    }
    errors.sort_by_key(|error| (error.line, error.column));
    (script, errors)
}

/// Reads one statement; `None` where it has mistakes, which are added to `errors`.
fn read(statement: &Statement, errors: &mut Vec<ScriptError>) -> Option<Located> {
    if !statement.complete {
        return None;
    }
    let keyword = match keyword(statement) {
        Ok(keyword) => keyword,
        Err(error) => {
            errors.push(error);
            return None;
        }
    };
    let (directive, options) = match keyword.text.as_str() {
        "jobdw" => instance::jobdw(keyword, statement),
        "persistentdw" => instance::persistentdw(keyword, statement),
        "stage_in" => stage::read(Direction::In, keyword, statement),
        "stage_out" => stage::read(Direction::Out, keyword, statement),
        "swap" => instance::swap(keyword, statement),
        "create_persistent" => instance::create_persistent(keyword, statement),
        _ => instance::destroy_persistent(keyword, statement),
    };
    let places = options.places();
    if options.errors.is_empty() {
        let directive = directive.expect("a reader that gives nothing notes why");
        return Some(Located { line: statement.place.line, directive, options: places });
    }
    errors.extend(options.errors);
    None
}

/// The statement's first word, if it is a directive of its family.
fn keyword(statement: &Statement) -> Result<&Word, ScriptError> {
    let family = statement.family;
    let expected = || format!("expected {}", family.keywords().join(", "));
    let word = match statement.items.first() {
        Some(Item::Plain(word) | Item::Option { name: word, .. }) => word,
        None => {
            return Err(statement.place.error(format!(
                "{} without a directive; {}",
                family.prefix(),
                expected()
            )));
        }
    };
    let is_option = matches!(statement.items[0], Item::Option { .. });
    if !is_option && family.keywords().contains(&word.text.as_str()) {
        return Ok(word);
    }
    let other = if family == Family::Dw { Family::Bb } else { Family::Dw };
    let advice = if is_option {
        format!("the directive's name comes first: {}", expected())
    } else if other.keywords().contains(&word.text.as_str()) {
        format!("write {} {}", other.prefix(), word.text)
    } else if let Some(guess) = closest(&word.text, family.keywords()) {
        format!("did you mean {guess}?")
    } else {
        expected()
    };
    let equals = if is_option { "=" } else { "" };
    let message = format!("unknown directive `{} {}{equals}`; {advice}", family.prefix(), word.text);
    Err(word.place.error(message))
}
