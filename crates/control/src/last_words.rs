//! What each node said last of the fragments that it served, and which of those go on at other nodes.
//!
//! A node asks before it answers what its mirror does not have ([`FragmentStatus::doubts`]). What it is told and what a
//! fragment is given up by are decided here, under one lock, so that never both happen.
//!
//! ```text
//! STATE/last-words.json     what was said, and in which life of control's database
//! ```
//!
//! It is beside the database and not in it: a copy of the database that is put back must not bring back old words. What
//! another life wrote, as where two machines take turns, is not believed.
//!
//! **Invariant:** a fragment is given up by nothing older than the last doubt that its node was told is known: what a
//! doubt changes here is on the disk before the node is told.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daemon::client::Client;
use disk::format;
use model::{InstanceId, NodeName};
use serde::{Deserialize, Serialize};
use wire::node::{FragmentStatus, NodeHealth};

/// Of the file.
const FORMAT: u32 = 1;

/// A node and an instance.
type Place = (NodeName, InstanceId);

/// Of all nodes.
pub struct LastWords {
    path: PathBuf,
    life: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    said: HashMap<Place, Said>,
    given_up: HashSet<Place>,
    /// The file has all that was said.
    is_saved: bool,
}

impl State {
    /// Whether the node has said something since of a fragment that took the place of this one there.
    fn is_replaced(&self, node: &NodeName, fragment: &FragmentStatus) -> bool {
        let said = self.said.get(&(node.to_owned(), fragment.instance.clone()));
        said.is_some_and(|said| said.term > fragment.term)
    }
}

/// What a node said of the copies of a fragment that it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The node with a mirror that lacks something of what was answered, which it has not noted.
    pub lacks_data: Option<NodeName>,
    /// The node with a copy of a metadata log that lacks something of what was confirmed.
    pub lacks_names: Option<NodeName>,
    /// The fragment's.
    #[serde(default)]
    pub term: u32,
}

impl Said {
    /// As its status has it.
    pub fn of(fragment: &FragmentStatus) -> Said {
        let data = fragment.mirrors.iter().find(|mirror| !mirror.whole && !mirror.named);
        let names = fragment.copies.iter().find(|copy| !copy.whole && !copy.confirmed);
        Said {
            lacks_data: data.map(|mirror| mirror.mirror.clone()),
            lacks_names: names.map(|copy| copy.node.clone()),
            term: fragment.term,
        }
    }

    /// Nothing of it is on its node alone.
    pub fn is_whole(&self) -> bool {
        self.lacks_data.is_none() && self.lacks_names.is_none()
    }
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Kept {
    life: String,
    said: Vec<(Place, Said)>,
}

impl LastWords {
    /// Those that the life `former` of the database left in the folder `state`; from here on it is the life `life`.
    /// Only `living` instances are of any use.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn open(
        state: &Path,
        (former, life): (Option<&str>, &str),
        living: &HashSet<InstanceId>,
    ) -> io::Result<LastWords> {
        let path = state.join("last-words.json");
        let kept = disk::read(&path)?.and_then(|text| format::decode::<Kept>(&text, FORMAT).ok());
        let kept = kept.filter(|kept| Some(kept.life.as_str()) == former);
        let said = kept.into_iter().flat_map(|kept| kept.said);
        let said = said.filter(|((_, instance), _)| living.contains(instance)).collect();
        let state = State { said, ..State::default() };
        let words = LastWords { path, life: life.to_owned(), state: Mutex::new(state) };
        words.save(&mut words.lock())?;
        Ok(words)
    }

    /// Takes note of what a node says; returns of which doubts it is to be told that they are known, by instance.
    fn hear(&self, node: &NodeName, health: &NodeHealth) -> Vec<(InstanceId, Vec<u64>)> {
        let mut state = self.lock();
        let fragments: Vec<&FragmentStatus> =
            health.fragments.iter().filter(|fragment| !state.is_replaced(node, fragment)).collect();
        for fragment in fragments.iter().filter(|fragment| fragment.witnessed && is_served(fragment)) {
            let said = Said::of(fragment);
            let place = (node.to_owned(), fragment.instance.clone());
            let is_as_before = |before: &Said| before.term == said.term && before.is_whole();
            // It has answered nothing since without its copies, and asks for nothing: it has only just been started.
            if fragment.doubts().is_empty() && state.said.get(&place).is_some_and(is_as_before) {
                continue;
            }
            state.is_saved &= state.said.get(&place) == Some(&said);
            state.said.insert(place, said);
        }
        if !self.is_saved(&mut state) {
            return Vec::new();
        }
        let of_each = fragments.into_iter().map(|fragment| (fragment.instance.clone(), fragment.doubts()));
        let is_told = |(instance, doubts): &(InstanceId, Vec<u64>)| {
            !doubts.is_empty() && !state.given_up.contains(&(node.to_owned(), instance.clone()))
        };
        of_each.filter(is_told).collect()
    }

    /// The node is told of no more doubts about the instance; returns what it said last of its fragment.
    pub(crate) fn give_up(&self, node: &NodeName, instance: &InstanceId) -> Option<Said> {
        let mut state = self.lock();
        let place = (node.to_owned(), instance.to_owned());
        let said = state.said.get(&place).cloned();
        state.given_up.insert(place);
        said
    }

    /// Whether it said last that nothing of its fragment, as it is in this term, is on it alone.
    pub(crate) fn is_proven(&self, node: &NodeName, instance: &InstanceId, term: u32) -> bool {
        let state = self.lock();
        let said = state.said.get(&(node.to_owned(), instance.to_owned()));
        said.is_some_and(|said| said.is_whole() && said.term >= term)
    }

    /// The node has its place in the instance, as before or again.
    pub(crate) fn keep(&self, node: &NodeName, instance: &InstanceId) {
        self.lock().given_up.remove(&(node.to_owned(), instance.to_owned()));
    }

    /// Forgets what a node said: nobody knows any more what it was told elsewhere.
    pub(crate) fn forget(&self, node: &NodeName) {
        let mut state = self.lock();
        state.said.retain(|(known, _), _| known != node);
        state.is_saved = false;
        self.is_saved(&mut state);
    }

    /// Whether the file has all that was said, now at least. Where it cannot be written nobody is told anything: what
    /// it says may be older than what nodes did since.
    fn is_saved(&self, state: &mut State) -> bool {
        if !state.is_saved
            && let Err(error) = self.save(state)
        {
            let path = self.path.display();
            tracing::error!(%path, %error, "cannot note what nodes say of their copies: none goes on without them");
        }
        state.is_saved
    }

    fn save(&self, state: &mut State) -> io::Result<()> {
        let said = state.said.iter().map(|(place, said)| (place.clone(), said.clone())).collect();
        let kept = Kept { life: self.life.clone(), said };
        disk::replace(&self.path, &format::encode(&kept, FORMAT)?)?;
        state.is_saved = true;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes note of what the node `name` says, has it shown, and tells the node which of its doubts are known here: from
/// then on it answers what no copy may have. What is known is forgotten only together with all that the node ever said,
/// and nobody takes its place by that then.
pub(crate) async fn listen(
    words: &Arc<LastWords>,
    (name, client): (&NodeName, &Client),
    health: NodeHealth,
    show: impl FnOnce(NodeHealth),
) {
    let (noting, of) = (words.clone(), name.to_owned());
    // What is said is noted on the disk where it is news.
    let heard = tokio::task::spawn_blocking(move || (noting.hear(&of, &health), health)).await;
    let Ok((doubts, health)) = heard else { return };
    show(health);
    for (instance, doubts) in &doubts {
        let path = format!("/v1/fragments/{instance}/heard");
        if let Err(error) = client.put::<_, serde_json::Value>(&path, doubts).await {
            // It says so again when it is asked next.
            let reason = error.reason();
            tracing::warn!(node = ?name, ?instance, reason, "cannot tell a node that its doubts are known");
        }
    }
}

/// One that is starting, or that cannot be served, says nothing of its mirror, as if there were none.
fn is_served(fragment: &FragmentStatus) -> bool {
    let speaks = !fragment.mirrors.is_empty() || !fragment.copies.is_empty();
    speaks || !(fragment.starting || fragment.error.is_some())
}

#[cfg(test)]
mod tests;
