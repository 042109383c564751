//! Which drain the ledger is of.

use std::collections::HashMap;
use std::path::PathBuf;

use super::record::Record;
use super::{Ledger, append};

/// A drain, as its ledger names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Of {
    /// What is drained: relative to what the drainer's folder is in, where it is below that, as a volume has several
    /// paths.
    pub(crate) from: PathBuf,
    /// Where to.
    pub(crate) to: PathBuf,
    /// The claims of names are the session's: see [`crate::claims`].
    pub(crate) session: String,
}

impl Ledger {
    /// Which drain it is of.
    pub(crate) fn of(&self) -> Option<&Of> {
        self.of.as_ref()
    }

    /// Forgets everything: from now on it is of another drain.
    ///
    /// # Errors
    /// The node's disk.
    pub(crate) fn begin_anew(&mut self, of: Of) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        (self.landed, self.begun) = (HashMap::new(), HashMap::new());
        (self.placed, self.paths) = (HashMap::new(), HashMap::new());
        let (from, to, session) = (of.from.as_path().into(), of.to.as_path().into(), of.session.clone());
        let mut line = Vec::new();
        append(&mut line, &Record::Of { from, to, session });
        self.of = Some(of);
        self.write(&line)?;
        self.sync()
    }
}
