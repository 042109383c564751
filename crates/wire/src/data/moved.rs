//! Fragments that another node has in place of one that is lost, as this machine's node keeps them for all its
//! processes.
//!
//! ```text
//! NODE/moved    a line each: INSTANCE FRAGMENT NODE TCP-ADDRESS
//! ```
//!
//! It is read whenever a connection is opened, so that whoever tries again finds the new place; specifications and
//! clients keep the addresses that they were made with. It is the node's alone: a process that gives up the node's
//! rights, as a stage's worker does, has it read by a thread that keeps them ([`keep_rights`]).
//!
//! **Invariant:** reading only: a file that is not there or cannot be read says nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

use model::{FragmentIndex, InstanceId, NodeName};

use super::hello::Claim;
use crate::node::StorageAddress;

/// The file's name, in a node's folder.
pub const NAME: &str = "moved";

static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Where an answer goes.
type Asked = Sender<io::Result<String>>;

/// Who reads the file for all threads.
static READER: OnceLock<Mutex<Sender<Asked>>> = OnceLock::new();

/// From here on this process finds moved fragments in the folder of the node `node`. The first call counts.
pub fn look_in(node: &Path) {
    let _set = FILE.set(node.join(NAME));
}

/// The same, for a process that has a specification at `NODE/mounts/ID/spec.json`, or as deep in another folder.
pub fn look_above(spec: &Path) {
    if let Some(node) = spec.ancestors().nth(3) {
        look_in(node);
    }
}

/// From here on the file is read with the rights that the calling thread has now, whatever rights it gives up later.
/// The first call counts.
///
/// # Errors
/// There is no thread for that.
pub fn keep_rights() -> io::Result<()> {
    let (asks, asked) = channel::<Asked>();
    let read = move || {
        for answer in asked {
            // Who asked waits for it.
            let _heard = answer.send(read_file());
        }
    };
    // A thread has the rights of the one that starts it, and keeps them.
    std::thread::Builder::new().name("moved".into()).spawn(read)?;
    let _set = READER.set(Mutex::new(asks));
    Ok(())
}

fn read_file() -> io::Result<String> {
    FILE.get().map_or(Ok(String::new()), std::fs::read_to_string)
}

fn read() -> io::Result<String> {
    let Some(reader) = READER.get() else { return read_file() };
    let (answer, answered) = channel();
    let asked = reader.lock().expect("no thread panics while it asks").send(answer);
    asked.map_err(io::Error::other)?;
    answered.recv().map_err(io::Error::other)?
}

/// Where the fragment is that is meant, if not where it was.
pub fn address_of(claim: &Claim) -> Option<StorageAddress> {
    let text = read().ok()?;
    // The last counts: a fragment may move again.
    let found = text.lines().rev().filter_map(parse);
    found
        .into_iter()
        .find(|(instance, fragment, _)| claim.instance == *instance && *fragment == claim.fragment)
        .map(|(_, _, address)| address)
}

/// A fragment, and where it was when it was dialled.
#[derive(Clone, Debug)]
pub struct Place {
    claim: Claim,
    was: Option<StorageAddress>,
}

impl Place {
    /// Where the fragment is that is meant.
    pub fn of(claim: &Claim) -> Place {
        Place { claim: claim.clone(), was: address_of(claim) }
    }

    /// Where it is, if it has moved from where its maker knew it.
    pub fn moved(&self) -> Option<&StorageAddress> {
        self.was.as_ref()
    }

    /// Where it is now, if that is another place than when it was dialled.
    pub fn has_moved(&self) -> Option<StorageAddress> {
        address_of(&self.claim).filter(|now| self.was.as_ref() != Some(now))
    }
}

/// The file with where a fragment is now, in place of where it was; `None` where it says so already.
pub fn with(
    text: &str,
    instance: &InstanceId,
    fragment: FragmentIndex,
    address: &StorageAddress,
) -> Option<String> {
    let line = format!("{instance} {fragment} {} {}\n", address.node, address.tcp);
    let is_of_this = |line: &&str| parse(line).is_some_and(|(of, at, _)| *instance == of && at == fragment);
    // Before 0.1.0 places were added at the end, and the last counted.
    let said = text.split_inclusive('\n').rfind(is_of_this);
    let others = text.split_inclusive('\n').filter(|line| !is_of_this(line));
    (said != Some(&line)).then(|| others.chain([line.as_str()]).collect())
}

fn parse(line: &str) -> Option<(&str, FragmentIndex, StorageAddress)> {
    let mut words = line.split(' ');
    let (instance, fragment, node, tcp) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let address = StorageAddress { node: NodeName::unchecked(node), tcp: tcp.to_owned(), unix: None };
    Some((instance, fragment.parse().ok()?, address))
}
