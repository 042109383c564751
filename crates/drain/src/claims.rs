//! Which node of a job has which name on the PFS: a file for each host in the session's folder there, appended to
//! before a name is used for the first time.
//!
//! ```text
//! HOST.claims := line*      line := ("+" | "-") path in JSON: a string, or bytes where it is no UTF-8
//!                                 | what is about to get a name, see [`crate::intents`]
//! ```
//!
//! It is of use to the other nodes only as long as it says what this node has: so a claim is on the PFS's disk before
//! the name is used, and whatever the node's ledger knows is claimed anew at a start, as the file may have been lost.
//!
//! A line that could not be written whole takes no other with it: the next begins with a line's end.
//!
//! **Invariant:** of two nodes that publish one name, at least one finds the other's claim and gives the name up.

mod host;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use disk::below::Root;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use stage::journal::PathText;

use self::host::{Host, damaged, unread};
use crate::intents::{Intent, Intents};
use crate::logs::ends_a_line;
use crate::status::Trouble;

/// It cannot be told whether another host claims a name.
pub(crate) const UNREAD: Errno = Errno::BADFD;

/// The end of a claims file's name.
const SUFFIX: &str = ".claims";

/// The claims of this host and what is known of the others'.
pub(crate) struct Claims {
    folder: PathBuf,
    own: PathBuf,
    /// Which folder is drained.
    of: u32,
    /// Other hosts may use the same names.
    meet: bool,
    state: Mutex<State>,
    /// What of the files is no claim, and was not told yet.
    damaged: Mutex<Vec<Trouble>>,
    /// Why it could not be told whether another host claims a name.
    unread: Mutex<Option<Trouble>>,
    /// How many lines of this process are on the disk. Held by who syncs them, also for those who wrote meanwhile.
    synced: Mutex<u64>,
}

struct State {
    file: Arc<File>,
    /// Lines that this process has written.
    lines: u64,
    /// The last line in it may be cut off: of who was killed as he wrote it, or for want of room.
    may_be_torn: bool,
    /// Names that this host has published under.
    kept: HashSet<PathBuf>,
    others: HashMap<PathBuf, Host>,
}

impl Claims {
    /// The claims of `host`, which drains the folder `of`, in the session's folder; `kept` are the names that it is
    /// known to have: what the file does not say of them is added, durably. `None`: no other host can have them. Gives
    /// what an earlier drainer was about to publish, too.
    ///
    /// # Errors
    /// The file cannot be made, read or written.
    pub(crate) fn open(
        folder: &Path,
        host: &str,
        of: u32,
        kept: Option<HashSet<PathBuf>>,
    ) -> std::io::Result<(Claims, impl Iterator<Item = Intent> + use<>)> {
        let own = folder.join(format!("{host}{SUFFIX}"));
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let file = Root::at(folder)
            .open_file(&own, flags, Mode::from_raw_mode(0o666))
            .map_err(|error| std::io::Error::new(error.kind(), format!("open {}: {error}", own.display())))?;
        let (file, meet) = (Arc::new(file), kept.is_some());
        let kept = kept.unwrap_or_default();
        let state = State { file, lines: 0, may_be_torn: true, kept, others: HashMap::new() };
        let (folder, state) = (folder.to_owned(), Mutex::new(state));
        let (damaged, unread, synced) = (Mutex::default(), Mutex::default(), Mutex::default());
        let claims = Claims { folder, own, of, meet, state, damaged, unread, synced };
        let intents = claims.renew().map_err(|error| {
            std::io::Error::new(error.kind(), format!("renew {}: {error}", claims.own.display()))
        })?;
        Ok((claims, intents.of(of)))
    }

    /// Claims what this host has and the file does not say. Gives what that says was about to be published.
    fn renew(&self) -> std::io::Result<Intents> {
        let mut said = Host::own();
        said.read(&self.own)?;
        self.note_damage(&self.own, &mut said);
        let mut state = self.lock();
        let lost: Vec<String> = state
            .kept
            .iter()
            .filter(|name| !said.claimed.contains(*name))
            .map(|name| line('+', name))
            .collect();
        if !lost.is_empty() {
            state.write(&lost.concat())?;
        }
        state.file.sync_all()?;
        File::open(&self.folder)?.sync_all()?;
        Ok(said.intents.unwrap_or_default())
    }

    /// Whether other hosts may have this one's names.
    pub(crate) fn meet(&self) -> bool {
        self.meet
    }

    /// Whether this host has published under the name.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.lock().kept.contains(path)
    }

    /// The name is this host's.
    pub(crate) fn keep(&self, path: &Path) {
        self.lock().kept.insert(path.to_owned());
    }

    /// Lets go of a name that has been removed: whoever finds a file there has made it himself, or another has.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn forget(&self, path: &Path) -> Result<(), Errno> {
        self.lock().kept.remove(path);
        self.give_up(path)
    }

    /// Says, durably, what this host is about to give a name, and claims that where it `is_new`.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn claim(&self, intent: &Intent, is_new: bool) -> Result<(), Errno> {
        let claim = if is_new { line('+', &intent.name) } else { String::new() };
        let number = self.write(&format!("{claim}{}", intent.line(self.of)))?;
        let mut synced = self.synced.lock().expect("no thread panics with the lock");
        if *synced < number {
            let (file, lines) = {
                let state = self.lock();
                (Arc::clone(&state.file), state.lines)
            };
            file.sync_data().map_err(errno)?;
            *synced = lines;
        }
        Ok(())
    }

    /// Says what has got its name, as it was left: for who has lost the ledger.
    pub(crate) fn say(&self, intent: &Intent) {
        if let Err(errno) = self.write(&intent.line(self.of)) {
            tracing::warn!("write {}: {errno}", self.own.display());
        }
    }

    /// Takes a claim back.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn give_up(&self, path: &Path) -> Result<(), Errno> {
        self.write(&line('-', path)).map(drop)
    }

    /// Whether another host claims the name.
    ///
    /// # Errors
    /// [`UNREAD`]: [`Claims::unread`] says why.
    pub(crate) fn is_elsewhere(&self, path: &Path) -> Result<bool, Errno> {
        if !self.meet {
            return Ok(false);
        }
        let mut state = self.lock();
        self.read_others(&mut state).map_err(|(file, error)| {
            let trouble = unread(path, &file, &error);
            *self.unread.lock().expect("no thread panics with the lock") = Some(trouble);
            UNREAD
        })?;
        // Earlier drainers wrote what is no UTF-8 like this.
        let lossy = path.to_string_lossy();
        let has = |host: &Host| host.claimed.contains(path) || host.claimed.contains(Path::new(&*lossy));
        Ok(state.others.values().any(has))
    }

    fn read_others(&self, state: &mut State) -> Result<(), (PathBuf, std::io::Error)> {
        let of_folder = |error| (self.folder.clone(), error);
        for entry in std::fs::read_dir(&self.folder).map_err(of_folder)? {
            let file = entry.map_err(of_folder)?.path();
            let is_claims = file.to_str().is_some_and(|name| name.ends_with(SUFFIX));
            if is_claims && file != self.own {
                let host = state.others.entry(file.clone()).or_default();
                let read = host.read(&file);
                self.note_damage(&file, host);
                read.map_err(|error| (file, error))?;
            }
        }
        Ok(())
    }

    /// Why it could not be told of the file `path` whether another host has its name.
    pub(crate) fn unread(&self, path: &Path) -> Option<Trouble> {
        let unread = self.unread.lock().expect("no thread panics with the lock").clone();
        unread.map(|trouble| Trouble { path: path.display().to_string(), ..trouble })
    }

    fn note_damage(&self, file: &Path, host: &mut Host) {
        for at in std::mem::take(&mut host.damaged) {
            let trouble = damaged(file, at);
            tracing::warn!("{}; {}", trouble.message, trouble.advice);
            self.damaged.lock().expect("no thread panics with the lock").push(trouble);
        }
    }

    /// What of the files is no claim, and was not taken yet.
    pub(crate) fn damaged(&self) -> Vec<Trouble> {
        self.damaged.lock().expect("no thread panics with the lock").clone()
    }

    /// The same; it is told once.
    pub(crate) fn take_damaged(&self) -> Vec<Trouble> {
        std::mem::take(&mut *self.damaged.lock().expect("no thread panics with the lock"))
    }

    /// Which of what this process has written it is.
    fn write(&self, lines: &str) -> Result<u64, Errno> {
        let mut state = self.lock();
        state.write(lines).map_err(errno)?;
        Ok(state.lines)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock")
    }
}

impl State {
    fn write(&mut self, line: &str) -> std::io::Result<()> {
        let is_torn = std::mem::replace(&mut self.may_be_torn, true) && !ends_a_line(&self.file)?;
        let begin = if is_torn { "\n" } else { "" };
        (&*self.file).write_all(format!("{begin}{line}").as_bytes())?;
        self.may_be_torn = false;
        self.lines += 1;
        Ok(())
    }
}

fn line(sign: char, path: &Path) -> String {
    let path = serde_json::to_string(&PathText::from(path)).expect("a path has no failing serialiser");
    format!("{sign}{path}\n")
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
