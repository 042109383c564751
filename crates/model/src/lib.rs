//! What Forebay is about, without any I/O: units, names, stripe arithmetic, life-cycle states, the grammar of
//! `#DW`/`#BB` directives, and what a Linux of some release can do.
//!
//! **Invariant:** nothing in this crate reads a file, a clock, the environment or the network.

pub mod buffer;
pub mod crowd;
pub mod directive;
pub mod file_pattern;
mod fragment_index;
pub mod hostlist;
mod ino;
pub mod kernel;
mod names;
pub mod phase;
pub mod sbatch;
mod session_id;
pub mod size;
pub mod stripe;
pub mod symbols;

pub use fragment_index::FragmentIndex;
pub use ino::Ino;
pub use names::{BadBufferName, InstanceId, Misspelt, NodeName, Token};
pub use session_id::SessionId;
