//! One fragment: an instance's part on this node, with the metadata of the namespaces that have their home here.
//! [`create`] makes what it has on disk, before its specification is written; opening makes nothing.
//!
//! ```text
//! FRAGMENTS/i3/spec.json                     what control asked for: see [`specification`]
//! FRAGMENTS/i3/verifier.json                 what clients know a loss of unsynced writes by
//! FRAGMENTS/i3/namespaces/0/meta.log         metadata, if this is namespace 0's home
//! FRAGMENTS/i3/sums/0.log                    checksums of namespace 0's objects here
//! FRAGMENTS/i3/objects/0/ab/00…12ab          objects, in a plain folder
//! FRAGMENTS/i3/volume/objects/0/ab/00…12ab   objects, in a volume
//! FRAGMENTS/i3/mirror…                       what it keeps of another fragment's objects: see [`crate::replica`]
//! FRAGMENTS/i3/mirrored/0                    whether its own objects of namespace 0 have changes that their mirror lacks
//! ```
//!
//! **Invariant:** a fragment is served with all that its specification names, or not at all.

mod advice;
mod connections;
pub mod create;
pub mod due;
mod failing;
pub mod folders;
pub mod fsck;
pub mod metadata;
mod mirrored;
pub mod restore;
pub mod specification;
pub mod volume;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use model::NodeName;
use model::stripe::Layout;
use wire::control::VolumeKind;
use wire::data::keys::Keys;
use wire::node::{FragmentSpec, FragmentStatus, NamespaceSpec};

use crate::image::VolumeError;
use crate::integrity::log::Place;
use crate::mirror::restore_error::RestoreError;
use crate::objects::Objects;
use crate::objects::space::Space;
use crate::peers::Peers;
use crate::replica::Replica;
use crate::scrub::sealer;
use crate::shard::log::LogError;
use crate::shard::{Expect, Shard};
use crate::terms::Terms;
use crate::verifier::Verifier;
use connections::Connections;
use folders::{home_of, objects_of, places};

/// Why a fragment cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum FragmentError {
    /// The file system refused.
    #[error("{operation} {path}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The volume cannot be had.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The metadata cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The metadata cannot be read, and its copy does not take its place.
    #[error("{lost}; its copy on node {node} cannot take its place: {why}")]
    Copy {
        /// What is wrong with it.
        lost: LogError,
        /// Where the copy is.
        node: NodeName,
        /// Why not.
        why: String,
        /// It may still do so: that node is asked again and again.
        asked_again: bool,
    },
    /// It takes the place of one that is lost, and cannot yet.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The key was changed while this part did not hear of it.
    #[error(
        "it has the key from before a change, as a folder has that was put back from an old copy: {found_by}"
    )]
    FormerKey {
        /// How that is known.
        found_by: &'static str,
    },
    /// The key is not 64 hexadecimal digits.
    #[error("the instance's key is not 64 hexadecimal digits")]
    Key,
    /// The specification cannot be understood.
    #[error("{path} is not a specification of this fragment: {why}")]
    Specification {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A newer Forebay wrote the specification.
    #[error("cannot understand {0}")]
    Newer(String),
    /// The folder has contents and no specification.
    #[error("{path} is missing, although there are other files beside it")]
    NoSpecification {
        /// Where it should be.
        path: PathBuf,
    },
}

impl FragmentError {
    /// A system call failed.
    fn io(operation: &'static str, path: &Path, cause: io::Error) -> FragmentError {
        FragmentError::Io { operation, path: path.to_owned(), cause }
    }
}

/// A fragment that is served.
pub struct Fragment {
    folder: PathBuf,
    /// As it was opened: its namespaces are in `namespaces`, which grows, and its keys in `keys`.
    spec: FragmentSpec,
    keys: Keys,
    space: Arc<Space>,
    verifier: Arc<Verifier>,
    namespaces: RwLock<HashMap<u32, NamespacePart>>,
    connections: Connections,
    terms: Arc<Terms>,
}

/// One namespace's part of a fragment.
#[derive(Clone)]
pub struct NamespacePart {
    /// Its objects here.
    pub objects: Arc<Objects>,
    /// Its metadata, if this is its home.
    pub shard: Option<Arc<Shard>>,
    /// What this node keeps of another fragment's objects.
    pub replica: Option<Arc<Replica>>,
    /// How its files are spread.
    pub layout: Layout,
}

impl Fragment {
    /// Opens the fragment below `folder`. All that `spec` names must be there: nothing is made.
    ///
    /// # Errors
    /// [`FragmentError`]; what is on disk is as it was.
    pub fn open(folder: &Path, spec: FragmentSpec, terms: &Arc<Terms>) -> Result<Fragment, FragmentError> {
        let keys = spec.keys().ok_or(FragmentError::Key)?;
        let volume = match spec.volume {
            VolumeKind::Directory => None,
            VolumeKind::Image => Some(volume::open(folder, spec.disk_bytes())?),
        };
        let space = Space::of(&spec, volume);
        let verifier = Verifier::open(folder, &places(folder, spec.volume)).map_err(|cause| {
            FragmentError::Io { operation: "keep the commit verifier in", path: folder.to_owned(), cause }
        })?;
        let namespaces = spec.namespaces.clone();
        let fragment = Fragment {
            folder: folder.into(),
            spec,
            keys,
            space: Arc::new(space),
            verifier: Arc::new(verifier),
            namespaces: RwLock::default(),
            connections: Connections::default(),
            terms: terms.clone(),
        };
        fragment.add(&namespaces)?;
        Ok(fragment)
    }

    /// Opens those of `namespaces` that are not open. All of them must be there.
    ///
    /// # Errors
    /// [`FragmentError`].
    pub fn add(&self, namespaces: &[NamespaceSpec]) -> Result<(), FragmentError> {
        for namespace in namespaces {
            if self.namespace(namespace.id).is_none() {
                let opened = self.open_namespace(namespace)?;
                self.namespaces.write().unwrap_or_else(PoisonError::into_inner).insert(namespace.id, opened);
            }
        }
        Ok(())
    }

    fn open_namespace(&self, namespace: &NamespaceSpec) -> Result<NamespacePart, FragmentError> {
        let root = objects_of(&self.folder, self.spec.volume, namespace.id);
        let seals = Place::of(&self.folder, &self.spec, namespace.id);
        let objects = Objects::open(root.clone(), seals, self.space.clone(), self.verifier.clone())
            .map_err(|cause| FragmentError::io("open the objects below", &root, cause))?;
        let mirror = self.mirror_for(namespace.id)?;
        let objects = Arc::new(objects.with_mirror(mirror));
        let replica = self.replica_for(namespace.id)?;
        sealer::start(&objects, namespace.id);
        self.start_mirrors(namespace.id, &objects)?;
        let shard = if namespace.home == self.spec.index {
            let peers = Arc::new(Peers::new(&self.spec, namespace.id, self.keys.clone(), &self.terms));
            let home = home_of(&self.folder, namespace.id);
            Some(Shard::open(&home, namespace, Expect::Existing, objects.clone(), peers)?)
        } else {
            None
        };
        self.tell_of_failures(namespace, &objects, shard.as_ref());
        Ok(NamespacePart { objects, shard, replica, layout: namespace.layout })
    }

    /// What it was asked to be when it was opened.
    pub fn spec(&self) -> &FragmentSpec {
        &self.spec
    }

    /// The keys of which clients prove one, and with what was made of it.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Its space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What clients know a loss of unsynced writes by.
    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    /// Who may speak for other fragments, and whether this one may.
    pub fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// The connections that are served.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// A namespace's part.
    pub fn namespace(&self, id: u32) -> Option<NamespacePart> {
        self.namespaces.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// All its namespaces.
    pub fn all_namespaces(&self) -> Vec<(u32, NamespacePart)> {
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        namespaces.iter().map(|(id, namespace)| (*id, namespace.clone())).collect()
    }

    /// What it says of itself.
    pub fn status(&self) -> FragmentStatus {
        let used = self.space.used();
        let (lost, lost_more) = self.lost();
        let unmeasured = |error| format!("cannot measure the volume of {}: {error}", self.folder.display());
        let error =
            folders::failed(&self.folder, self.spec.volume).or_else(|| used.as_ref().err().map(unmeasured));
        FragmentStatus {
            instance: self.spec.instance.clone(),
            index: self.spec.index,
            capacity_bytes: self.spec.capacity_bytes,
            used_bytes: used.as_ref().copied().unwrap_or(0),
            advice: error.is_some().then(|| advice::MOUNT_IT_AGAIN.to_owned()),
            error,
            copies: self.copies(),
            mirrors: self.mirrors(),
            integrity: self.integrity(),
            lost,
            lost_more,
            term: self.spec.term,
            witnessed: self.spec.witnessed,
            key_step: self.keys.step(),
            ..FragmentStatus::default()
        }
    }

    /// Ends every connection and serves nothing any more.
    pub fn close(&self) {
        self.connections.close();
        for namespace in self.namespaces.read().unwrap_or_else(PoisonError::into_inner).values() {
            namespace.shard.iter().for_each(|shard| shard.close());
            namespace.objects.keeper().close();
            namespace.objects.mirror().iter().for_each(|mirror| mirror.close());
            namespace.replica.iter().for_each(|replica| replica.objects().keeper().close());
        }
    }
}
