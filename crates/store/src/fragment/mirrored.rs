//! A fragment whose objects another node keeps as well, and which keeps those of another fragment.

use std::sync::{Arc, PoisonError};

use model::Ino;
use wire::data::member::Role;
use wire::node::{IntegrityStatus, MirrorStatus};

use super::folders::{self, mirror_of};
use super::{Fragment, FragmentError, NamespacePart};
use crate::filling;
use crate::integrity::log;
use crate::link::Place;
use crate::log_folder::DiskFolder;
use crate::mirror::Mirror;
use crate::mirror::primary::Primary;
use crate::objects::Objects;
use crate::objects::space::Space;
use crate::replica::{self, Replica};
use crate::scrub::sealer;

/// So many objects that are lost are named.
const LOST_MAX: usize = 100;

impl Fragment {
    /// The mirror of a namespace's objects here, if they have one.
    pub(super) fn mirror_for(&self, namespace: u32) -> Result<Option<Arc<Mirror>>, FragmentError> {
        let place = Place::of_mirror(&self.spec, namespace, self.keys.clone(), &self.terms);
        let Some(place) = place else { return Ok(None) };
        let mut specs = self.spec.namespaces.iter();
        let home = specs.find(|one| one.id == namespace).and_then(|one| {
            let who = (namespace, Role::Following);
            Place::at(&self.spec, one.home, who, self.keys.clone(), &self.terms)
        });
        let notes = self.folder.join("mirrored").join(namespace.to_string());
        folders::make(&notes)?;
        let opened = DiskFolder::open(&notes).and_then(|folder| {
            Mirror::new((place, home, self.spec.index), Arc::new(folder), self.verifier.clone())
        });
        opened.map(Some).map_err(|cause| FragmentError::io("look whether there is a note in", &notes, cause))
    }

    /// What is kept here of another fragment's objects.
    pub(super) fn replica_for(&self, namespace: u32) -> Result<Option<Arc<Replica>>, FragmentError> {
        if !self.spec.behaviour.mirrored {
            return Ok(None);
        }
        let root = mirror_of(&self.folder, self.spec.volume, namespace);
        let failed = |cause| FragmentError::io("open the mirror below", &root, cause);
        let seals = log::Place::of_mirror(&self.folder, &self.spec, namespace);
        // What fits is its own fragment's to say.
        let space = Arc::new(Space::counted(u64::MAX));
        let objects = Objects::open(root.clone(), seals, space, self.verifier.clone()).map_err(failed)?;
        let primary = Place::of_primary(&self.spec, namespace, self.keys.clone(), &self.terms);
        let objects = Arc::new(match primary {
            Some(place) => objects.with_other(Arc::new(Primary::new(place))),
            None => objects,
        });
        sealer::start(&objects, namespace);
        let replica = Replica::open(&self.folder, namespace, objects, self.verifier.clone());
        let unread = |cause| {
            FragmentError::io("read the note of a mirror", &replica::path_of(&self.folder, namespace), cause)
        };
        replica.map(|replica| Some(Arc::new(replica))).map_err(unread)
    }

    /// Begins to find the mirrors: their node may be asked while this fragment is served.
    pub(super) fn start_mirrors(&self, namespace: u32, objects: &Arc<Objects>) -> Result<(), FragmentError> {
        let Some(mirror) = objects.mirror() else { return Ok(()) };
        filling::start(objects, mirror).map_err(|cause| {
            let place = self.folder.join("mirrored").join(namespace.to_string());
            FragmentError::io("start the thread for the mirror of", &place, cause)
        })
    }

    /// Control knows of these doubts about copies that other nodes keep.
    pub fn hear(&self, doubts: &[u64]) {
        for (_, namespace) in self.all_namespaces() {
            namespace.objects.mirror().iter().for_each(|mirror| mirror.hear(doubts));
            namespace.shard.iter().for_each(|shard| shard.hear(doubts));
        }
    }

    /// Some of the objects that were lost with the node whose place this one took, and were not written anew; and how
    /// many are noted besides.
    pub(super) fn lost(&self) -> (Vec<(u32, Ino)>, u64) {
        let (mut some, mut all) = (Vec::new(), 0);
        for (id, namespace) in self.all_namespaces() {
            let found = namespace.objects.lost(LOST_MAX - some.len().min(LOST_MAX));
            some.extend(found.into_iter().map(|ino| (id, ino)));
            all += namespace.objects.noted_lost();
        }
        let more = (all as u64).saturating_sub(some.len() as u64);
        (some, more)
    }

    /// How its objects are kept on another node.
    pub(super) fn mirrors(&self) -> Vec<MirrorStatus> {
        let own = self.spec.peers.get(self.spec.index.place());
        let node = own.map(|own| own.node.clone()).unwrap_or_default();
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        let mirror_of = |(id, namespace): (&u32, &NamespacePart)| {
            let kept = namespace.replica.as_ref().map_or(0, |replica| replica.objects().keeper().repairs());
            let repaired = namespace.objects.keeper().repairs() + kept;
            Some(MirrorStatus { repaired, ..namespace.objects.mirror()?.status(*id, &node) })
        };
        let mut mirrors: Vec<MirrorStatus> = namespaces.iter().filter_map(mirror_of).collect();
        mirrors.sort_by_key(|mirror| mirror.namespace);
        mirrors
    }

    /// What is known to be wrong with its own objects and with those that it keeps for another fragment.
    pub(super) fn integrity(&self) -> IntegrityStatus {
        let mut sum = IntegrityStatus::default();
        for (_, NamespacePart { objects, replica, shard, .. }) in self.all_namespaces() {
            sum.log_error = sum.log_error.or_else(|| shard.as_ref()?.log_trouble());
            sum.lost_writes += shard.as_ref().map_or(0, |shard| shard.known_losses());
            let kept = replica.iter().map(|replica| replica.objects().keeper());
            for keeper in kept.chain([objects.keeper()]) {
                sum.damaged += keeper.known.count() as u64;
                sum.unverified += keeper.unverified.count() as u64;
                sum.seals_lost = sum.seals_lost.or_else(|| keeper.unverified.why());
                sum.seals_error = sum.seals_error.or_else(|| keeper.log.trouble());
            }
        }
        sum
    }
}
