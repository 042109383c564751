//! Which parts of an instance its nodes serve, as they said last, and why they do not serve the others.
//!
//! **Invariant:** a part of which nobody has said anything is neither served nor lost: it is not known.

use wire::node::{FragmentStatus, PartTrouble};

use crate::control::now_unix;
use crate::site::NodeView;
use crate::state::instances::Instance;

/// How long after a session's start a node's last report may be older than the fragment, seconds.
const SETTLED_S: u64 = 30;

/// How a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Served,
    /// Its node has not said.
    Unknown,
    /// It is being started, or its node does not answer: it may be served later without anybody's help.
    Awaited(PartTrouble),
    /// Its node says that it cannot serve it, or does not have it.
    Refused(PartTrouble),
}

/// Whether all parts are served; `None`: not known.
pub fn is_intact(instance: &Instance, created_unix: u64, nodes: &[NodeView]) -> Option<bool> {
    let parts = || of(instance, created_unix, nodes);
    if parts().any(|part| matches!(part, Part::Refused(_))) {
        return Some(false);
    }
    parts().all(|part| part == Part::Served).then_some(true)
}

/// Those that are not served, with why and what to do.
pub fn unserved(instance: &Instance, created_unix: u64, nodes: &[NodeView]) -> Vec<PartTrouble> {
    let trouble = |part| match part {
        Part::Awaited(trouble) | Part::Refused(trouble) => Some(trouble),
        Part::Served | Part::Unknown => None,
    };
    of(instance, created_unix, nodes).filter_map(trouble).collect()
}

/// The first of those that will not be served before somebody has done something.
pub fn refused(instance: &Instance, created_unix: u64, nodes: &[NodeView]) -> Option<PartTrouble> {
    of(instance, created_unix, nodes).find_map(|part| match part {
        Part::Refused(trouble) => Some(trouble),
        _ => None,
    })
}

fn of<'a>(
    instance: &'a Instance,
    created_unix: u64,
    nodes: &'a [NodeView],
) -> impl Iterator<Item = Part> + 'a {
    let settled = now_unix().saturating_sub(created_unix) > SETTLED_S;
    (0..).zip(&instance.nodes).map(move |(part, name)| {
        let Some(view) = nodes.iter().find(|view| view.name == *name) else { return Part::Unknown };
        let trouble = |why: String, advice: String| PartTrouble { part, node: name.clone(), why, advice };
        let Some(health) = view.health.as_ref().filter(|_| view.online) else {
            return match &view.last_error {
                Some(why) => Part::Awaited(trouble(format!("the node does not answer: {why}"), come_back(view))),
                None => Part::Unknown,
            };
        };
        match health.fragments.iter().find(|fragment| fragment.instance == instance.id) {
            Some(FragmentStatus { error: Some(why), advice, .. }) => {
                let advice = advice.as_deref().unwrap_or("look into the node's log");
                Part::Refused(trouble(why.clone(), format!("{advice}{}", again(view))))
            }
            Some(FragmentStatus { starting: true, .. }) => Part::Awaited(trouble(
                "it is being started, and the node with the copy of its metadata log is asked first".into(),
                "wait some seconds".into(),
            )),
            Some(_) => Part::Served,
            None if settled => {
                let why = "the node does not have it, although it was made there".into();
                let advice = "see whether the file system with the node's folder is mounted, mount it, and start the node again";
                Part::Refused(trouble(why, format!("{advice}{}", again(view))))
            }
            None => Part::Unknown,
        }
    })
}

/// How a node is started again that control runs by itself.
fn again(view: &NodeView) -> String {
    match (&view.registration, &view.health) {
        (None, Some(health)) => {
            format!(" (`kill {}` ends node {}, which is then started again)", health.pid, view.name)
        }
        _ => String::new(),
    }
}

/// What to do about a node that does not answer.
fn come_back(view: &NodeView) -> String {
    match view.registration {
        None => format!(
            "it is started again by itself; look into {}.log in the log folder if it stays away",
            view.name
        ),
        Some(_) => format!("start forebay-node on {}, or mend the way to it", view.name),
    }
}
