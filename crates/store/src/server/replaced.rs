//! A fragment that was given up for lost while it was away, or was cut off: another node serves it, and this one stops
//! by itself as soon as it hears of that, from a node that it speaks to ([`crate::terms`]) or from control.
//!
//! **Invariant:** what such a fragment has on disk stays as it is, until control has it removed.

use std::path::Path;
use std::sync::Arc;

use model::{FragmentIndex, InstanceId, NodeName};
use wire::control::{ApiError, ErrorCode};
use wire::node::{FragmentSpec, FragmentStatus};

use super::slot::{Slot, unknown};
use super::{POISON, Server, thread};
use crate::fragment::{Fragment, FragmentError, specification};
use crate::terms::Terms;

const WHY: &str = "another has taken its place, as an operator gave this one up for lost";

impl Server {
    /// What the fragment below `folder` has heard of others. It is not served any more when it hears that it is
    /// replaced.
    pub(super) fn terms(
        self: &Arc<Server>,
        folder: &Path,
        spec: &FragmentSpec,
    ) -> Result<Arc<Terms>, FragmentError> {
        let terms = Terms::open(folder, spec.index, spec.term).map_err(|cause| FragmentError::Io {
            operation: "read which nodes were replaced from terms.json in",
            path: folder.to_owned(),
            cause,
        })?;
        let (server, instance) = (Arc::downgrade(self), spec.instance.clone());
        let part = (spec.index, spec.capacity_bytes);
        terms.when_replaced(move || {
            let Some(server) = server.upgrade() else { return };
            // Nobody is answered from here on, whatever else is being done with fragments.
            server.fragment(&instance).iter().for_each(|fragment| fragment.close());
            let of = instance.clone();
            // Whoever has found out may be waited for.
            if let Err(error) = thread("replaced", move || server.end_replaced(&of, part)) {
                tracing::error!(?instance, %error, "no thread to end a fragment that another node has");
            }
        });
        Ok(terms)
    }

    /// Whether another node has taken the place of what is here of the instance.
    pub(crate) fn is_replaced(&self, instance: &InstanceId) -> bool {
        matches!(self.fragments.read().expect(POISON).get(instance), Some(Slot::Replaced(_)))
    }

    /// Shows that another node has it. Gives the fragment, if it was served.
    pub(super) fn show_replaced(&self, status: FragmentStatus) -> Option<Arc<Fragment>> {
        let (error, advice) = (Some(WHY.to_owned()), Some(advice(&self.node)));
        let given_up = Some(self.root.join(&status.instance));
        let replaced = FragmentStatus { error, advice, given_up, ..status };
        match self.slots().insert(replaced.instance.clone(), Slot::Replaced(replaced)) {
            Some(Slot::Served(fragment)) => Some(fragment),
            _ => None,
        }
    }

    /// Control says that another node has this fragment of the instance: what is here of it is served no more, and kept
    /// as it is. Nothing to do where it is not here.
    ///
    /// # Errors
    /// Blames the site where it cannot be noted, or is no fragment that another could have: it is not served then,
    /// either.
    pub fn give_up_fragment(
        self: &Arc<Server>,
        instance: &InstanceId,
        index: FragmentIndex,
    ) -> Result<(), ApiError> {
        let folder = self.folder(instance)?;
        let failed = |error| self.cannot(ErrorCode::FragmentNotGivenUp, "give up", instance, &error);
        let spec = specification::read(&folder).map_err(failed)?;
        let Some(spec) = spec.filter(|spec| spec.index == index) else { return Ok(()) };
        let terms = match self.copies(instance) {
            Some(copies) => copies.terms().clone(),
            None => self.terms(&folder, &spec).map_err(failed)?,
        };
        terms.lose();
        self.end_replaced(instance, (spec.index, spec.capacity_bytes));
        match terms.is_noted() {
            true => Ok(()),
            false => Err(failed(FragmentError::Io {
                operation: "note in",
                path: folder,
                cause: std::io::Error::other("that another node has it"),
            })),
        }
    }

    /// Serves it no more: nobody is answered from here on, nor is anything kept here for other nodes.
    fn end_replaced(&self, instance: &InstanceId, (index, capacity_bytes): (FragmentIndex, u64)) {
        let _alone = self.changing.lock().expect(POISON);
        if self.status_of(instance).is_none() {
            // It was removed meanwhile, or the node is being stopped.
            return;
        }
        let served =
            self.show_replaced(FragmentStatus { index, capacity_bytes, ..unknown(instance.to_owned()) });
        let copies = self.copies.write().expect(POISON).remove(instance);
        copies.iter().for_each(|copies| copies.close());
        let Some(fragment) = served else { return };
        fragment.close();
        let (volume, verifier) = (fragment.spec().volume, fragment.verifier().clone());
        drop(fragment);
        if let Err(error) = self.finish(instance, volume, &verifier) {
            tracing::warn!(?instance, %error, "a fragment that another node has is not ended cleanly");
        }
    }
}

/// What helps where control takes what is here for the part all the same. Only a node that is away can be given up.
fn advice(node: &NodeName) -> String {
    format!(
        "where its folder was put back from an old copy, put the newer one back; where another node has the part, stop \
         forebay-node on {node}, then `forebay node lost {node}`, as an operator, has the buffer go on over that one"
    )
}
