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

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use disk::below::Root;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use stage::journal::PathText;

use crate::intents::{Intent, Intents, SIGN};
use crate::logs::ends_a_line;

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

#[derive(Default)]
struct Host {
    offset: u64,
    claimed: HashSet<PathBuf>,
    /// `None`: they are another host's.
    intents: Option<Intents>,
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
        let claims = Claims { folder, own, of, meet, state, synced: Mutex::default() };
        let intents = claims.renew().map_err(|error| {
            std::io::Error::new(error.kind(), format!("renew {}: {error}", claims.own.display()))
        })?;
        Ok((claims, intents.of(of)))
    }

    /// Claims what this host has and the file does not say. Gives what that says was about to be published.
    fn renew(&self) -> std::io::Result<Intents> {
        let mut said = Host { intents: Some(Intents::default()), ..Host::default() };
        said.read(&self.own)?;
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
    /// The PFS's.
    pub(crate) fn is_elsewhere(&self, path: &Path) -> Result<bool, Errno> {
        if !self.meet {
            return Ok(false);
        }
        let mut state = self.lock();
        for entry in std::fs::read_dir(&self.folder).map_err(errno)? {
            let file = entry.map_err(errno)?.path();
            let is_claims = file.to_str().is_some_and(|name| name.ends_with(SUFFIX));
            if is_claims && file != self.own {
                let read = state.others.entry(file.clone()).or_default().read(&file);
                read.inspect_err(|error| tracing::warn!("read {}: {error}", file.display()))
                    .map_err(errno)?;
            }
        }
        // Earlier drainers wrote what is no UTF-8 like this.
        let lossy = path.to_string_lossy();
        let has = |host: &Host| host.claimed.contains(path) || host.claimed.contains(Path::new(&*lossy));
        Ok(state.others.values().any(has))
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

impl Host {
    /// Takes in what was appended since.
    fn read(&mut self, path: &Path) -> std::io::Result<()> {
        let root = Root::at(path.parent().unwrap_or(path));
        let mut file = root.open_file(path, OFlags::RDONLY, Mode::empty())?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        for line in new.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            self.offset += u64::try_from(line.len()).expect("a length in memory fits 64 bits");
            // One that was cut off is no name.
            let Some((sign, name)) = line.split_first() else { continue };
            if char::from(*sign) == SIGN {
                self.intents.iter_mut().for_each(|intents| intents.read(name));
                continue;
            }
            let Ok(name) = serde_json::from_slice::<PathText>(name) else { continue };
            let name = name.to_path();
            match sign {
                b'-' => {
                    self.intents.iter_mut().for_each(|intents| intents.forget(&name));
                    self.claimed.remove(&name)
                }
                _ => self.claimed.insert(name),
            };
        }
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
mod tests {
    use super::*;
    use crate::placed::{Over, Placed};

    #[test]
    fn a_name_that_is_claimed_elsewhere_is_known_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let of = |host| Claims::open(folder.path(), host, 1, Some(HashSet::new())).unwrap().0;
        let (a, b) = (of("a"), of("b"));
        let name = Path::new("/pfs/out\n1");
        a.claim(&intent(name), true).unwrap();
        assert!(b.is_elsewhere(name).unwrap());
        assert!(!a.is_elsewhere(name).unwrap(), "its own claim is no other's");
        a.give_up(name).unwrap();
        assert!(!b.is_elsewhere(name).unwrap());
        a.claim(&intent(name), true).unwrap();
        a.keep(name);
        a.forget(name).unwrap();
        assert!(!b.is_elsewhere(name).unwrap() && !a.has(name), "it was removed");
    }

    #[test]
    fn what_was_about_to_be_published_is_known_to_the_next_drainer_of_the_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let of = |of| Claims::open(folder.path(), "a", of, None).unwrap();
        let known = |number| of(number).1.map(|intent| intent.name).collect::<HashSet<_>>();
        let (first, second) = (Path::new("/pfs/1"), Path::new("/pfs/2"));
        let claims = of(1).0;
        [first, second].iter().for_each(|name| claims.claim(&intent(name), false).unwrap());
        assert_eq!((known(1).len(), known(2).len()), (2, 0));
        claims.forget(first).unwrap();
        assert_eq!(known(1), HashSet::from([second.to_owned()]));
    }

    fn intent(name: &Path) -> Intent {
        let folder = tempfile::tempdir().unwrap();
        let seen = crate::generation::look(&Root::at(folder.path()), Path::new("")).unwrap();
        Intent { name: name.to_owned(), inode: Placed::before(&seen), over: Over::Nothing }
    }
}
