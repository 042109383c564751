//! What is on disk of what is also sent: each type of `wire` that a file or a database has is there in a form of its
//! own. What is sent may change, what is here stays readable.
//!
//! ```text
//! forms     how a form is declared, beside the type that it is of
//! text      files with a format, and JSON without one
//! fragment, mount, stage, report, local, script, time    the forms
//! ```
//!
//! **Invariant:** a form's text is what it always was, as `golden` has it: what is not in a text is what there was
//! before there was such a key. A type without a form cannot be written: nobody else can give a type of `wire` one.

#[macro_use]
mod forms;
mod fragment;
#[cfg(test)]
mod golden;
mod local;
mod mount;
mod report;
mod script;
mod stage;
mod text;
mod time;

pub use forms::{OnDisk, form};
pub use text::{decode, encode, from_text, to_text};

/// The newest format of a fragment's `spec.json` that is understood: programs that cannot encrypt what they say must
/// not serve one that wants it.
pub const FRAGMENT: u32 = 2;

/// The same where what is said of the instance is not encrypted.
pub const FRAGMENT_IN_CLEAR: u32 = 1;

/// The format of the other specifications and notes that a node keeps, and that its mounts and stages read.
pub const OF_NODES: u32 = 1;
