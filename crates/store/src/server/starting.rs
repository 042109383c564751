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

pub(super) mod greeting;
mod lost;
mod older;
mod taken;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::InstanceId;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, FragmentStatus};

use self::lost::{ANSWER_WITHIN, Fetched, Home, Unfit};
use super::slot::{Slot, status_of};
use super::{POISON, Server, thread};
use crate::fragment::due::{self, Due};
use crate::fragment::{self, Fragment, FragmentError, folders, metadata};
use crate::link::Place;
use crate::shard::log::{self, restore};
use crate::terms::Terms;

/// How long a start waits for the node with the copies: after a power loss of all nodes the last may come later.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon to ask again.
const PAUSE: Duration = Duration::from_millis(50);

/// How soon to look again for a log that is lost: at first, and at most.
pub(super) const LOST_PAUSE: Duration = Duration::from_millis(500);
const LOST_PAUSE_MAX: Duration = Duration::from_secs(10);

/// A fragment that starts.
pub(super) struct Starting {
    instance: InstanceId,
    folder: PathBuf,
    spec: FragmentSpec,
    terms: Arc<Terms>,
    homes: Vec<Home>,
    /// It takes the place of one that is lost, and this is had from other nodes before.
    due: Option<Due>,
}

impl Starting {
    /// Of the fragment in `folder`; `None` where it needs no other node: it is no home, and takes nobody's place.
    ///
    /// # Errors
    /// What it has still to take from other nodes cannot be told.
    pub(super) fn of(
        instance: &InstanceId,
        folder: &Path,
        spec: &FragmentSpec,
        terms: &Arc<Terms>,
    ) -> Result<Option<Starting>, FragmentError> {
        let Some(key) = Key::from_hex(&spec.key) else { return Ok(None) };
        let due = due::of(folder).map_err(|cause| FragmentError::Io {
            operation: "read what is to be taken from other nodes from",
            path: due::note_of(folder),
            cause,
        })?;
        let at_home = spec.namespaces.iter().filter(|namespace| namespace.home == spec.index);
        let homes: Vec<Home> = at_home
            .filter_map(|namespace| {
                let place = Place::of(spec, namespace.id, key.clone(), terms)?;
                let is_accepted = due == Some(Due::AcceptedNames);
                Some(Home { path: folders::home_of(folder, namespace.id), place, is_accepted })
            })
            .collect();
        let (instance, folder) = (instance.to_owned(), folder.to_owned());
        let is_needed = due.is_some() || !homes.is_empty() || spec.witnessed || spec.behaviour.mirrored;
        let (spec, terms) = (spec.clone(), terms.clone());
        Ok(is_needed.then(|| Starting { instance, folder, spec, terms, homes, due }))
    }

    fn status(&self) -> FragmentStatus {
        status_of(&self.spec, &self.instance)
    }

    /// It takes the place of one that is lost.
    fn restores(&self) -> bool {
        self.due.is_some()
    }

    fn open(&self) -> Result<Fragment, FragmentError> {
        if self.due.is_some_and(|due| due.loses_objects(self.spec.behaviour.mirrored)) {
            // The mirror is not spoken to before all that is lost is noted.
            let mut alone = self.spec.clone();
            alone.behaviour.mirrored = false;
            let fragment = Fragment::open(&self.folder, alone, &self.terms)?;
            let noted =
                fragment::restore::note_own_lost(&self.folder, &fragment, self.spec.behaviour.mirrored);
            // What was noted is read at the next opening.
            fragment.close();
            drop(fragment);
            noted?;
        }
        Fragment::open(&self.folder, self.spec.clone(), &self.terms)
    }

    /// Asks how far the logs were synced, and notes that beside them: one that ends before is known to be cut off then.
    fn ask_copies(&self) -> Result<(), String> {
        for home in &self.homes {
            let folder = match log::folder(&home.path) {
                Ok(folder) => folder,
                Err(error) if restore::is_lost(&error) => continue,
                Err(error) => return Err(error.to_string()),
            };
            home.ask(&*folder)?;
        }
        Ok(())
    }

    /// Whether the node with the copies answers: it is one for all of a fragment's namespaces.
    fn can_ask(&self) -> bool {
        self.homes.iter().all(|home| home.place.reach(ANSWER_WITHIN).is_ok())
    }

    /// Has the copies of the logs that are lost.
    fn fetch(&self) -> Result<Vec<Fetched<'_>>, Unfit> {
        let lost = self.homes.iter().filter_map(|home| {
            let checked = log::folder(&home.path).and_then(|folder| restore::check(&*folder));
            Some((home, checked.err()?))
        });
        lost.map(|(home, lost)| home.fetch(lost)).collect()
    }

    /// Puts copies in the place of the logs that are lost.
    fn restore(&self, copies: Vec<Fetched<'_>>) -> Result<(), Unfit> {
        // What was answered and not synced may be lacking. First: this process may die as soon as a copy is in its
        // place.
        metadata::may_have_lost(&self.folder, &self.spec).map_err(Unfit::Yet)?;
        copies.into_iter().try_for_each(Fetched::take_place)
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
            tracing::error!(?instance, %error, "no thread to start a fragment; the next start of the node tries again");
        }
    }

    fn start(&self, starting: &Starting) {
        let begun = Instant::now();
        if starting.restores() || starting.spec.witnessed {
            let is_refused = starting.greet();
            if self.withholds(starting.status(), is_refused) {
                return;
            }
        }
        if !self.settle_objects(starting, begun) {
            return;
        }
        self.ask_copies(starting, begun);
        let mut pause = LOST_PAUSE;
        while !self.try_start(starting) {
            // Also where the node answers and does not give the copy, or the disk here does not take it.
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOST_PAUSE_MAX);
            while self.is_wanted(&starting.instance) && !starting.can_ask() {
                pause = LOST_PAUSE;
                std::thread::sleep(pause);
            }
        }
    }

    /// Waits until the nodes with the copies have said how far the logs were synced, or nobody can wait any longer.
    fn ask_copies(&self, starting: &Starting, begun: Instant) {
        while let Err(why) = starting.ask_copies() {
            if !self.is_wanted(&starting.instance) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let instance = &starting.instance;
                tracing::warn!(
                    ?instance,
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
        let opened = self.alone(&starting.instance, || match starting.open() {
            Err(FragmentError::Log(lost)) if restore::is_lost(&lost) => None,
            opened => Some(self.concluded(starting, opened.map_err(Unfit::Never))),
        });
        match opened {
            None => true,
            Some(Some(is_done)) => is_done,
            Some(None) => self.try_restore(starting),
        }
    }

    /// The same, where a log is lost.
    fn try_restore(&self, starting: &Starting) -> bool {
        // Other fragments come and go meanwhile: the other node may take its time, or hang.
        let copies = starting.fetch();
        let restored = self.alone(&starting.instance, || {
            let restored = copies.and_then(|copies| starting.restore(copies));
            self.concluded(starting, restored.and_then(|()| starting.open().map_err(Unfit::Never)))
        });
        restored.unwrap_or(true)
    }

    /// Does what changes the fragment, while no other comes or goes; `None` where it is not wanted any more.
    pub(super) fn alone<T>(&self, instance: &InstanceId, act: impl FnOnce() -> T) -> Option<T> {
        let _alone = self.changing.lock().expect(POISON);
        self.is_wanted(instance).then(act)
    }

    /// Serves or refuses it. Returns whether there is nothing more to be done.
    fn concluded(&self, starting: &Starting, opened: Result<Fragment, Unfit>) -> bool {
        match opened {
            Ok(fragment) => self.started(starting, fragment),
            Err(Unfit::Never(error)) => self.refuse(starting.status(), &error),
            Err(Unfit::Yet(error)) => {
                self.refuse(FragmentStatus { retried: true, ..starting.status() }, &error);
                return false;
            }
        }
        true
    }

    fn started(&self, Starting { instance, terms, .. }: &Starting, fragment: Fragment) {
        let fragment = Arc::new(fragment);
        let mut slots = self.slots();
        if slots.contains_key(instance) && !terms.is_replaced() {
            slots.insert(instance.to_owned(), Slot::Served(fragment));
        } else {
            // The node is being stopped, or another has taken the fragment's place.
            drop(slots);
            fragment.close();
        }
    }

    /// Whether nobody has removed it meanwhile, nor the node is being stopped.
    fn is_wanted(&self, instance: &InstanceId) -> bool {
        let slots = self.fragments.read().expect(POISON);
        matches!(slots.get(instance), Some(Slot::Starting(_) | Slot::Broken(_)))
    }

    /// Waits until it is known whether the fragment can be served. Returns whether that is so.
    pub(super) fn wait_until_started(&self, instance: &InstanceId, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.is_starting(instance) {
            if begun.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }
}
