//! Parts that a start finds are served only with the present key: their folder may be a copy from before a change,
//! which lets in whoever has the former one.
//!
//! ```text
//! a start --- what does control say of it? ---> a change was finished since: withheld until control brings the key
//!    |                |        |  it was given up: not served at all
//!    |                |  that it has the present key, or nothing
//!    | no answer for  v
//!    | some seconds  served
//!    v                ^
//! the nodes of the other parts are asked ---> one refuses its key: withheld until control brings the key, or says
//!                                                                   that it is the present one
//! ```
//!
//! **Invariant:** where control or another node of the instance is reached, no part is served with a former key.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::{InstanceId, NodeName};
use wire::control::{ApiError, ErrorCode, KnownPart};
use wire::data::keys::is_former;
use wire::node::{FragmentSpec, FragmentStatus};

use super::changes::name_of;
use super::slot::{Slot, status_of};
use super::{OpenError, POISON, Server, rekey};
use crate::fragment::{FragmentError, specification};

/// What control has not said yet.
#[derive(Default)]
pub(super) struct Heard {
    /// Folders of parts that wait for its word.
    waiting: Mutex<Vec<PathBuf>>,
    /// Parts of which it has said nothing, and whose others are being asked.
    unsure: Mutex<HashSet<InstanceId>>,
}

impl Server {
    /// As [`Server::open`]; the fragments are served when [`Server::hear_of_parts`] was called.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub fn open_unheard(root: PathBuf, node_name: NodeName) -> Result<Arc<Server>, OpenError> {
        Server::open_with(root, node_name, Server::wait_for_word)
    }

    fn wait_for_word(self: &Arc<Server>, folder: &Path) {
        let Ok(Some(spec)) = specification::read(folder) else { return self.load(folder) };
        let name = name_of(folder);
        let status = FragmentStatus { starting: true, ..status_of(&spec, &name) };
        self.slots().insert(name, Slot::Starting(status));
        self.heard.waiting.lock().expect(POISON).push(folder.to_owned());
    }

    /// What control says of the parts that are here, or were; `None`: it says nothing. Those that have waited for that
    /// are served, or withheld.
    pub fn hear_of_parts(self: &Arc<Server>, known: Option<&[KnownPart]>) {
        let waiting = std::mem::take(&mut *self.heard.waiting.lock().expect(POISON));
        for folder in waiting {
            let name = name_of(&folder);
            let part = known.map(|known| known.iter().find(|part| part.instance == name));
            self.alone(&name, || self.judge(&folder, &name, part));
        }
        known.into_iter().flatten().for_each(|part| self.release(part));
    }

    /// Serves one that is withheld as others refuse its key, where control knows of no later one: theirs is a former
    /// one then.
    fn release(self: &Arc<Server>, part: &KnownPart) {
        let _alone = self.changing.lock().expect(POISON);
        let step = match self.fragments.read().expect(POISON).get(&part.instance) {
            Some(Slot::Withheld(status)) => status.key_step,
            _ => return,
        };
        if !part.given_up && !is_former(step, part.key_step) {
            self.load(&self.root.join(&part.instance));
        }
    }

    fn judge(self: &Arc<Server>, folder: &Path, name: &InstanceId, known: Option<Option<&KnownPart>>) {
        let Ok(Some(spec)) = specification::read(folder) else { return self.load(folder) };
        match known {
            Some(Some(KnownPart { given_up: true, .. })) => {
                drop(self.show_replaced(status_of(&spec, name)));
            }
            Some(Some(part)) if is_former(spec.key_step, part.key_step) => {
                let found_by = "control knows of a later key";
                self.refuse(status_of(&spec, name), &FragmentError::FormerKey { found_by });
            }
            Some(_) => self.load(folder),
            None => {
                // Of one without others nobody else can tell.
                if spec.witnessed {
                    self.heard.unsure.lock().expect(POISON).insert(name.to_owned());
                }
                self.load(folder);
            }
        }
    }

    /// Whether the nodes of the other parts are being asked whether its key is the present one.
    pub(crate) fn is_unsure(&self, instance: &InstanceId) -> bool {
        self.heard.unsure.lock().expect(POISON).contains(instance)
    }

    /// They were asked. Returns whether the fragment is withheld, as one has refused its key and control has said
    /// nothing.
    pub(super) fn withholds(&self, status: FragmentStatus, is_refused: bool) -> bool {
        let instance = status.instance.clone();
        let conclude = || {
            let was_unsure = self.heard.unsure.lock().expect(POISON).remove(&instance);
            let is_withheld = was_unsure && is_refused;
            if is_withheld {
                let copies = self.copies.write().expect(POISON).remove(&instance);
                copies.iter().for_each(|copies| copies.close());
                let found_by = "a node with another part refuses it";
                self.refuse(status, &FragmentError::FormerKey { found_by });
            }
            is_withheld
        };
        let concluded = self.alone(&instance, conclude);
        // Also of one that was removed meanwhile: another may come by that name.
        self.heard.unsure.lock().expect(POISON).remove(&instance);
        concluded.unwrap_or(false)
    }

    /// Whether it is not served before control brings the present key.
    pub(super) fn is_withheld(&self, instance: &InstanceId) -> bool {
        matches!(self.fragments.read().expect(POISON).get(instance), Some(Slot::Withheld(_)))
    }

    /// Control brings the present key of a part that is withheld: it is served now.
    pub(super) fn bring_key(self: &Arc<Server>, folder: &Path, spec: &FragmentSpec) -> Result<(), ApiError> {
        self.check_in_touch(folder, spec)?;
        let is_later = self.status_of(&spec.instance).is_none_or(|known| known.key_step < spec.key_step);
        if is_later {
            rekey::keep(folder, spec).map_err(|error| {
                self.cannot(ErrorCode::KeyNotChanged, "change the key of", &spec.instance, &error)
            })?;
        }
        tracing::info!(instance = ?spec.instance, step = spec.key_step, "took the present key of a fragment");
        self.load(folder);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
