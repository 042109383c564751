//! How fragments come and go: what a start finds, and what control asks for.
//!
//! ```text
//! FRAGMENTS/i3              complete: served, or refused by name
//! FRAGMENTS/.making-i3      was being made when the node ended: nobody was told of it, it is removed
//! FRAGMENTS/.removing-i3    was being removed when the node ended: that goes on
//! ```
//!
//! **Invariant:** only what control has asked to remove, and what was never finished, is removed. Whatever else is
//! there and cannot be served is kept as it is and says so in its status.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::InstanceId;
use wire::control::{ApiError, ErrorCode};
use wire::node::{FragmentSpec, FragmentStatus, Missing};

use super::slot::{Slot, status_of, unknown};
use super::starting::{LOST_PAUSE, Starting};
use super::{POISON, Server, thread};
use crate::copies::Copies;
use crate::fragment::{Fragment, FragmentError, create, specification};
use crate::terms::Terms;
use crate::verifier;

/// How long a request for a fragment waits for its start.
pub(super) const START_MAX: Duration = Duration::from_secs(30);

impl Server {
    /// Takes up what a former life of the node has left.
    pub(super) fn take_up(self: &Arc<Server>, found: Vec<disk::Found>, load: impl Fn(&Arc<Server>, &Path)) {
        let (in_use, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| found.stage == disk::Stage::InUse);
        verifier::look(in_use.iter().map(|found| &*found.path));
        in_use.iter().for_each(|found| load(self, &found.path));
        if rest.is_empty() {
            return;
        }
        let server = self.clone();
        // A million objects take their time, and nobody waits for it.
        let begun = thread("remove", move || rest.iter().for_each(|found| server.finish_removal(found)));
        if let Err(error) = begun {
            tracing::warn!(%error, "no thread to remove what is left of fragments; the next start removes it");
        }
    }

    fn finish_removal(&self, found: &disk::Found) {
        let _alone = self.removing.lock().expect(POISON);
        // What was being made has no objects yet, and may be made anew at this moment.
        let is_made = found.stage == disk::Stage::Making;
        let _unchanged = is_made.then(|| self.changing.lock().expect(POISON));
        let folder = &found.path;
        match create::remove(folder) {
            Ok(()) => tracing::info!(path = %folder.display(), "removed what was left of a fragment"),
            Err(error) => tracing::warn!(
                path = %folder.display(),
                error = &error as &dyn std::error::Error,
                "cannot remove what is left of a fragment; the next start tries again"
            ),
        }
    }

    /// Opens what is in the folder of an instance, or keeps it and says why not.
    pub(super) fn load(self: &Arc<Server>, folder: &Path) {
        let name = name_of(folder);
        let spec = match specification::read(folder) {
            Ok(Some(spec)) => spec,
            Ok(None) => return,
            Err(error) => return self.refuse(unknown(name), &error),
        };
        let status = status_of(&spec, &name);
        let terms = match self.terms(folder, &spec) {
            Ok(terms) if terms.is_replaced() => return drop(self.show_replaced(status)),
            Ok(terms) => terms,
            Err(error) => return self.refuse(status, &error),
        };
        self.keep_copies(&name, folder, &spec, &terms);
        self.start_up(&name, folder, spec, terms);
    }

    /// Serves a fragment, at once or in the background. One of which it cannot be told which of these is refused, and
    /// tried again.
    fn start_up(self: &Arc<Server>, name: &InstanceId, folder: &Path, spec: FragmentSpec, terms: Arc<Terms>) {
        let status = status_of(&spec, name);
        match Starting::of(name, folder, &spec, &terms) {
            Ok(Some(starting)) => return self.begin(starting),
            Ok(None) => {}
            Err(error) => {
                self.refuse(FragmentStatus { retried: true, ..status }, &error);
                return self.start_up_later(name, folder, spec, terms);
            }
        }
        match Fragment::open(folder, spec, &terms) {
            Ok(fragment) => drop(self.slots().insert(name.clone(), Slot::Served(Arc::new(fragment)))),
            Err(error) => self.refuse(status, &error),
        }
    }

    fn start_up_later(
        self: &Arc<Server>,
        name: &InstanceId,
        folder: &Path,
        spec: FragmentSpec,
        terms: Arc<Terms>,
    ) {
        let (server, folder, of) = (self.clone(), folder.to_owned(), name.clone());
        let later = move || {
            std::thread::sleep(LOST_PAUSE);
            server.alone(&of, || server.start_up(&of, &folder, spec, terms));
        };
        if let Err(error) = thread("start", later) {
            tracing::error!(
                ?name,
                %error,
                "no thread to try again to start a fragment; the next start of the node does"
            );
        }
    }

    /// From here on this node keeps copies of the metadata logs of the instance's other nodes.
    fn keep_copies(&self, instance: &InstanceId, folder: &Path, spec: &FragmentSpec, terms: &Arc<Terms>) {
        if let Some(keys) = spec.keys().filter(|_| spec.peers.len() > 1) {
            let copies = Arc::new(Copies::new(folder, spec.index, keys, terms.clone()));
            self.copies.write().expect(POISON).insert(instance.to_owned(), copies);
        }
    }

    /// Confirms the fragment that is there, with the namespaces that it does not have yet. Where there is none, it is
    /// made if the specification says so.
    ///
    /// # Errors
    /// Blames the site: there should be one and is none, no space, no privilege, no tool. What was begun is removed
    /// again. Where something is that cannot be served, it stays as it is.
    pub fn create_fragment(self: &Arc<Server>, spec: &FragmentSpec) -> Result<FragmentStatus, ApiError> {
        self.create_fragment_within(START_MAX, spec)
    }

    /// The same, where one that is there may take so long to start.
    pub(super) fn create_fragment_within(
        self: &Arc<Server>,
        patience: Duration,
        spec: &FragmentSpec,
    ) -> Result<FragmentStatus, ApiError> {
        if !self.wait_until_started(&spec.instance, patience) {
            return Err(self.starting(&spec.instance));
        }
        let mut changing = self.changing.lock().expect(POISON);
        let folder = self.folder(&spec.instance)?;
        self.check_ours(&mut changing, spec)?;
        if self.is_withheld(&spec.instance) {
            self.bring_key(&folder, spec)?;
            drop(changing);
            return self.create_fragment_within(patience, spec);
        }
        if let Some(fragment) = self.fragment(&spec.instance) {
            if fragment.spec().term < spec.term {
                fragment.terms().lose();
                return Err(self.broken(&spec.instance, "another node has taken its place since", None));
            }
            self.rekey(&folder, &fragment, spec)?;
            self.extend(&folder, &fragment, spec)?;
        }
        match self.status_of(&spec.instance) {
            Some(FragmentStatus { error: Some(why), advice, .. }) => {
                return Err(self.broken(&spec.instance, &why, advice));
            }
            Some(status) => return Ok(status),
            None if spec.missing == Missing::Refused => return Err(self.lacking(&spec.instance)),
            None => {}
        }
        self.check_space(spec)?;
        self.make(&folder, spec)
            .map_err(|error| self.cannot(ErrorCode::FragmentNotCreated, "create", &spec.instance, &error))
    }

    fn make(self: &Arc<Server>, folder: &Path, spec: &FragmentSpec) -> Result<FragmentStatus, FragmentError> {
        // What came there without us is not ours to build on, nor to remove.
        if specification::read(folder)?.is_some() {
            let (path, why) =
                (specification::path_of(folder), "it was not there when the node started".into());
            return Err(FragmentError::Specification { path, why });
        }
        create::fragment(folder, spec).inspect_err(|_| undo(&disk::making(folder)))?;
        // From here on the folder under its own name is what this call has made.
        let named = disk::sync_names(folder).map_err(|cause| FragmentError::Io {
            operation: "name",
            path: folder.to_owned(),
            cause,
        });
        let take_back = |_: &FragmentError| {
            if disk::begin_removal(folder).is_ok() {
                undo(&disk::removing(folder));
            }
        };
        let (is_replacing, spec) = (spec.missing.is_replacing(), &create::as_kept(spec));
        let terms = named.and_then(|()| self.terms(folder, spec)).inspect_err(take_back)?;
        if is_replacing {
            return Ok(self.begin_restored(folder, spec, &terms));
        }
        let fragment = Fragment::open(folder, spec.clone(), &terms).inspect_err(take_back)?;
        let status = fragment.status();
        self.keep_copies(&spec.instance, folder, spec, &terms);
        self.missed.made(&spec.instance);
        self.slots().insert(spec.instance.clone(), Slot::Served(Arc::new(fragment)));
        Ok(status)
    }

    /// Begins to take what the lost fragment had from the other nodes: it is not known yet whether that can be.
    fn begin_restored(
        self: &Arc<Server>,
        folder: &Path,
        spec: &FragmentSpec,
        terms: &Arc<Terms>,
    ) -> FragmentStatus {
        self.keep_copies(&spec.instance, folder, spec, terms);
        self.start_up(&spec.instance, folder, spec.clone(), terms.clone());
        self.status_of(&spec.instance).unwrap_or_else(|| unknown(spec.instance.clone()))
    }

    /// Removes a fragment with all its data. Nothing to do where there is none, or that of another instance.
    ///
    /// # Errors
    /// Blames the site when files cannot be removed; calling again goes on.
    pub fn delete_fragment(&self, instance: &InstanceId) -> Result<(), ApiError> {
        let _alone = self.removing.lock().expect(POISON);
        let removing = disk::removing(&self.folder(instance)?);
        let failed = |error| self.cannot(ErrorCode::FragmentNotRemoved, "remove", instance, &error);
        // A million objects take their time: other fragments come and go meanwhile.
        create::remove(&removing).map_err(failed)?;
        self.take_out_of_use(instance)?;
        create::remove(&removing).map_err(failed)
    }

    /// Serves a fragment no more, and begins to remove its folder.
    fn take_out_of_use(&self, instance: &InstanceId) -> Result<(), ApiError> {
        let changing = self.changing.lock().expect(POISON);
        let folder = self.folder(instance)?;
        let failed = |error| self.cannot(ErrorCode::FragmentNotRemoved, "remove", instance, &error);
        if changing.has(instance, &folder).map_err(failed)? {
            tracing::warn!(
                ?instance,
                "kept the fragment of another instance with the id of one that is removed"
            );
            return Ok(());
        }
        create::remove(&disk::making(&folder)).map_err(failed)?;
        if let Some(fragment) = self.fragment(instance) {
            fragment.close();
        }
        // Not in one expression with the lock: the copies of other instances would wait for the disk with this one's.
        let copies = self.copies.write().expect(POISON).remove(instance);
        copies.iter().for_each(|copies| copies.close());
        // One step, and durable: a node that is killed now does not serve what is half gone.
        if let Err(cause) = disk::begin_removal(&folder) {
            let error = FragmentError::Io { operation: "begin to remove", path: folder, cause };
            self.refuse(unknown(instance.to_owned()), &error);
            return Err(failed(error));
        }
        self.slots().remove(instance);
        self.missed.removed(instance);
        Ok(())
    }
}

/// The instance that a fragment's folder is of.
pub(super) fn name_of(folder: &Path) -> InstanceId {
    InstanceId::unchecked(folder.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes what a call has made that then failed. The error that its caller is told is the first.
fn undo(folder: &Path) {
    if let Err(error) = create::remove(folder) {
        tracing::warn!(
            path = %folder.display(),
            error = &error as &dyn std::error::Error,
            "cannot remove a fragment that could not be made; the next start removes it"
        );
    }
}
