//! The start of a fragment that is home to metadata of which another node keeps a copy: in a thread of its own, as
//! that node may be starting too, and is asked before anybody is served.
//!
//! ```text
//! starting --- how far was the log synced, for all that the other node knows? ---> open it
//!    |  no answer for some seconds: the log counts, if nothing is wrong with it       |  the log is lost, or cut off
//!    v                                                                                v
//!  served <------------------------------------------------------------------- the copy takes its place
//!                                                                                     |  the other node does not answer
//!                                                                                     v
//!                                                                           refused by name, and tried again
//! ```
//!
//! **Invariant:** a log gives its place only to a copy that is known to have all that was confirmed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::data::hello::Key;
use wire::node::{FragmentSpec, FragmentStatus};

use super::changes::unknown;
use super::{POISON, Server, Slot, thread};
use crate::copies::link::Place;
use crate::fragment::{Fragment, FragmentError, metadata};
use crate::shard::log::disk::Folder;
use crate::shard::log::mark::Mark;
use crate::shard::log::{self, LogError, restore};

/// How long a start waits for the node with the copy, where nothing is wrong with the log. After a power loss of all
/// nodes the last may come some seconds after the first.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon it is asked again, and how long each of its answers may take.
const PAUSE: Duration = Duration::from_millis(50);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How soon a log that is lost is looked for again.
const LOST_PAUSE: Duration = Duration::from_millis(500);

/// How long a request for a fragment waits for its start.
const START_MAX: Duration = Duration::from_secs(30);

/// A namespace's metadata, and where its copy is.
struct Home {
    path: PathBuf,
    place: Place,
}

/// A fragment that starts.
pub(super) struct Starting {
    instance: String,
    folder: PathBuf,
    spec: FragmentSpec,
    homes: Vec<Home>,
}

/// Why a copy does not take the place of a log that is lost.
enum Unfit {
    /// The node may answer later.
    Away(FragmentError),
    Never(FragmentError),
}

/// The same, in words.
enum Why {
    Later(String),
    Never(String),
}

impl Starting {
    /// Of the fragment in `folder`; `None` where it is no home, or the only fragment.
    pub(super) fn of(instance: &str, folder: &Path, spec: &FragmentSpec) -> Option<Starting> {
        let key = Key::from_hex(&spec.key)?;
        let at_home = spec.namespaces.iter().filter(|namespace| namespace.home == spec.index);
        let homes: Vec<Home> = at_home
            .filter_map(|namespace| {
                let place = Place::of(spec, namespace.id, key.clone())?;
                Some(Home { path: metadata::home_of(folder, namespace.id), place })
            })
            .collect();
        let (instance, folder) = (instance.to_owned(), folder.to_owned());
        (!homes.is_empty()).then(|| Starting { instance, folder, spec: spec.clone(), homes })
    }

    fn status(&self) -> FragmentStatus {
        let (index, capacity_bytes) = (self.spec.index, self.spec.capacity_bytes);
        FragmentStatus { index, capacity_bytes, ..unknown(self.instance.clone()) }
    }

    fn open(&self) -> Result<Fragment, FragmentError> {
        Fragment::open(&self.folder, self.spec.clone())
    }

    /// Asks how far the logs were synced, and notes that beside them: one that ends before is known to be cut off then.
    fn ask_copies(&self) -> Result<(), String> {
        for home in &self.homes {
            let Ok(folder) = log::folder(&home.path) else { continue };
            home.ask(&*folder)?;
        }
        Ok(())
    }

    /// Whether the node with the copies answers: it is one for all of a fragment's namespaces.
    fn can_ask(&self) -> bool {
        self.homes.iter().all(|home| home.place.reach(Some(ANSWER_WITHIN)).is_ok())
    }

    /// Puts copies in the place of logs that are lost.
    fn restore(&self) -> Result<(), Unfit> {
        // What was answered and not synced may be lacking. First: this process may die as soon as a copy is in its place.
        metadata::may_have_lost(&self.folder, &self.spec).map_err(Unfit::Never)?;
        for home in &self.homes {
            if let Err(lost) = log::folder(&home.path).and_then(|folder| restore::check(&*folder)) {
                home.restore(lost)?;
            }
        }
        Ok(())
    }
}

impl Home {
    fn ask(&self, folder: &dyn Folder) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("node {}: {error}", self.place.node());
        if restore::is_alone(folder).map_err(|error| failed(&error))? {
            // It knows less than this node.
            return Ok(());
        }
        let mut link = self.place.reach(Some(ANSWER_WITHIN)).map_err(|error| failed(&error))?;
        let found = link.find().map_err(|error| failed(&error))?;
        Mark::raise(folder, found.confirmed).map_err(|error| failed(&error))
    }

    fn restore(&self, lost: LogError) -> Result<(), Unfit> {
        if !restore::is_lost(&lost) {
            return Err(Unfit::Never(lost.into()));
        }
        let folder = match log::folder(&self.path) {
            Ok(folder) => folder,
            Err(_) => metadata::make_home(&self.path)
                .and_then(|()| Ok(log::folder(&self.path)?))
                .map_err(Unfit::Never)?,
        };
        let node = self.place.node().to_owned();
        match self.take_copy(&*folder) {
            Ok(entries) => {
                tracing::warn!(
                    path = %self.path.display(),
                    %lost,
                    node,
                    entries,
                    "the metadata log was lost: its second copy has taken its place"
                );
                Ok(())
            }
            Err(Why::Later(why)) => {
                Err(Unfit::Away(FragmentError::Copy { lost, node, why, asked_again: true }))
            }
            Err(Why::Never(why)) => {
                Err(Unfit::Never(FragmentError::Copy { lost, node, why, asked_again: false }))
            }
        }
    }

    /// Puts the copy in the place of the log in the folder. Returns how many entries that has had then.
    fn take_copy(&self, folder: &dyn Folder) -> Result<u64, Why> {
        let alone = restore::is_alone(folder)
            .map_err(|error| Why::Never(format!("cannot look whether it may: {error}")))?;
        if alone {
            let why = "this node has confirmed changes while that one was away, which it lacks";
            return Err(Why::Never(why.to_owned()));
        }
        let bytes = self.fetch(folder).map_err(Why::Later)?;
        if bytes.is_empty() {
            return Err(Why::Never("it has none".to_owned()));
        }
        let origin = PathBuf::from(format!("on node {}", self.place.node()));
        restore::put(folder, &bytes, &origin).map_err(|error| Why::Never(error.to_string()))
    }

    /// The copy's bytes; empty where there is none. The mark is raised before: a copy that lacks what it speaks of is
    /// refused.
    fn fetch(&self, folder: &dyn Folder) -> Result<Vec<u8>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{error}; it is asked again until it answers");
        let mut link = self.place.reach(Some(ANSWER_WITHIN)).map_err(|error| failed(&error))?;
        let found = link.find().map_err(|error| failed(&error))?;
        Mark::raise(folder, found.confirmed).map_err(|error| failed(&error))?;
        link.read(found.length).map_err(|error| failed(&error))
    }
}

impl Server {
    /// Starts the fragment in the background.
    pub(super) fn begin(self: &Arc<Server>, starting: Starting) {
        let status = FragmentStatus { starting: true, ..starting.status() };
        self.slots().insert(starting.instance.clone(), Slot::Starting(status));
        let server = self.clone();
        let instance = starting.instance.clone();
        if let Err(error) = thread("start", move || server.start(&starting)) {
            tracing::error!(instance, %error, "no thread to start a fragment; the next start of the node tries again");
        }
    }

    fn start(&self, starting: &Starting) {
        self.ask_copies(starting);
        while !self.try_start(starting) {
            // Also where the node answers and does not give the copy: its disk may be in trouble.
            std::thread::sleep(LOST_PAUSE);
            while self.is_wanted(&starting.instance) && !starting.can_ask() {
                std::thread::sleep(LOST_PAUSE);
            }
        }
    }

    /// Waits until the nodes with the copies have said how far the logs were synced, or nobody can wait any longer.
    fn ask_copies(&self, starting: &Starting) {
        let begun = Instant::now();
        while let Err(why) = starting.ask_copies() {
            if !self.is_wanted(&starting.instance) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let instance = &starting.instance;
                tracing::warn!(
                    instance,
                    why,
                    "the node with the second copy of the metadata log does not say how far it was synced: the log here counts, if \
                     nothing is wrong with it"
                );
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns whether there is nothing more to be done.
    fn try_start(&self, starting: &Starting) -> bool {
        let _alone = self.changing.lock().expect(POISON);
        if !self.is_wanted(&starting.instance) {
            return true;
        }
        let opened = match starting.open() {
            Err(FragmentError::Log(lost)) if restore::is_lost(&lost) => {
                starting.restore().and_then(|()| starting.open().map_err(Unfit::Never))
            }
            opened => opened.map_err(Unfit::Never),
        };
        match opened {
            Ok(fragment) => self.started(&starting.instance, fragment),
            Err(Unfit::Never(error)) => self.refuse(starting.status(), &error),
            Err(Unfit::Away(error)) => {
                self.refuse(starting.status(), &error);
                return false;
            }
        }
        true
    }

    fn started(&self, instance: &str, fragment: Fragment) {
        let fragment = Arc::new(fragment);
        let mut slots = self.slots();
        if slots.contains_key(instance) {
            slots.insert(instance.to_owned(), Slot::Served(fragment));
        } else {
            // The node is being stopped.
            drop(slots);
            fragment.close();
        }
    }

    /// Whether nobody has removed it meanwhile, nor the node is being stopped.
    fn is_wanted(&self, instance: &str) -> bool {
        let slots = self.fragments.read().expect(POISON);
        matches!(slots.get(instance), Some(Slot::Starting(_) | Slot::Broken(_)))
    }

    /// Waits until it is known whether the fragment can be served.
    pub(super) fn wait_until_started(&self, instance: &str) {
        let begun = Instant::now();
        while begun.elapsed() < START_MAX {
            if !self.is_starting(instance) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
