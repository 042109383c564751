//! What is about to get which name on the PFS, and in place of what: lines of a host's claims there, on the PFS's disk
//! before the name is used.
//!
//! ```text
//! line := "=" {"name":path,"of":number,"inode":{...},"over":...}      `of`: which drained folder
//! ```
//!
//! The next drainer of the folder, whose ledger may lack it (a power loss, a flash that takes nothing more or has
//! failed, a ledger that was removed), so tells what it has published from what somebody has put there or changed
//! since: it is one of the two, or may not go.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stage::journal::PathText;

use crate::placed::{Over, Placed};

/// What such a line begins with. An earlier release takes it for a claim of no name.
pub(crate) const SIGN: char = '=';

/// What is about to get a name.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The name on the PFS.
    pub(crate) name: PathBuf,
    /// What gets it.
    pub(crate) inode: Placed,
    /// What has it now.
    pub(crate) over: Over,
}

#[derive(Serialize, Deserialize)]
struct Line {
    name: PathText,
    of: u32,
    inode: Placed,
    over: Over,
}

impl Intent {
    /// Its line, of the drained folder `of`.
    pub(crate) fn line(&self, of: u32) -> String {
        let line = Line { name: self.name.as_path().into(), of, inode: self.inode, over: self.over };
        format!("{SIGN}{}\n", serde_json::to_string(&line).expect("it has no maps and no failing serialiser"))
    }
}

/// The last of each name.
#[derive(Default)]
pub(crate) struct Intents(HashMap<PathBuf, (u32, Intent)>);

impl Intents {
    /// Takes a line in, without its sign.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(&mut self, line: &[u8]) -> serde_json::Result<()> {
        let Line { name, of, inode, over } = serde_json::from_slice(line)?;
        let name = name.to_path();
        self.0.insert(name.clone(), (of, Intent { name, inode, over }));
        Ok(())
    }

    /// The name was given up.
    pub(crate) fn forget(&mut self, name: &std::path::Path) {
        self.0.remove(name);
    }

    /// Those of the drained folder `of`.
    pub(crate) fn of(self, of: u32) -> impl Iterator<Item = Intent> {
        self.0.into_values().filter(move |(other, _)| *other == of).map(|(_, intent)| intent)
    }
}
