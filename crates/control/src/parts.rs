//! Which parts of an instance its nodes serve, as they said last, and why they do not serve the others.
//!
//! **Invariant:** a part of which nobody has said anything is neither served nor lost: it is not known.

use model::{FragmentIndex, NodeName};
use wire::advice::TOKEN;
use wire::control::GivenUp;
use wire::data::keys::{STEPS, is_former};
use wire::node::{FragmentStatus, PartTrouble};

use crate::advice::{for_good, look_into};
use crate::site::NodeView;
use crate::state::instances::Instance;

/// How a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Served,
    /// Its node has not said.
    Unknown,
    /// It is being started, or its node does not answer: it may be served later without anybody's help.
    Awaited(PartTrouble),
    /// Its node says that it cannot serve it, or does not have it.
    Refused(Refused),
}

/// A part that its node does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Why, and what to do as long as the nodes run as they do now.
    pub trouble: PartTrouble,
    /// The node tries it again by itself.
    pub retried: bool,
}

/// Whether all parts are served and no damage of them is known; `None`: not known.
pub(crate) fn is_intact(instance: &Instance, nodes: &[NodeView]) -> Option<bool> {
    let parts = || of(instance, nodes);
    if parts().any(|part| matches!(part, Part::Refused(_))) {
        return Some(false);
    }
    if !damaged(instance, nodes).is_empty() {
        return Some(false);
    }
    parts().all(|part| part == Part::Served).then_some(true)
}

/// Those of which some bytes are damaged, or may be, with what to do, as their nodes said last.
pub(crate) fn damaged(instance: &Instance, nodes: &[NodeView]) -> Vec<PartTrouble> {
    let told = |fragment: &FragmentStatus| {
        [names_lack(fragment), lost(fragment).or_else(|| fragment.integrity.told())]
    };
    troubles(instance, nodes, told)
}

/// Those that lost what nobody was promised, and no program was told, with what to do.
pub(crate) fn lost_writes(instance: &Instance, nodes: &[NodeView]) -> Vec<PartTrouble> {
    troubles(instance, nodes, |fragment| [fragment.integrity.told_of_losses()])
}

fn troubles<const N: usize>(
    instance: &Instance,
    nodes: &[NodeView],
    told: impl Fn(&FragmentStatus) -> [Option<(String, String)>; N],
) -> Vec<PartTrouble> {
    let of_node = |(part, name): (FragmentIndex, &NodeName)| {
        let health = nodes.iter().find(|view| view.name == *name).and_then(|view| view.health.as_ref());
        let mut fragments = health.into_iter().flat_map(|health| &health.fragments);
        let fragment = fragments.find(|fragment| fragment.instance == instance.id);
        let told = fragment.map(&told);
        let node = name.clone();
        let trouble = move |(why, advice)| PartTrouble { part, node: node.clone(), why, advice };
        told.into_iter().flatten().flatten().map(trouble).collect::<Vec<_>>()
    };
    FragmentIndex::of_each(&instance.nodes).flat_map(of_node).collect()
}

/// What is said of names that were taken from a copy that may lack some.
fn names_lack(fragment: &FragmentStatus) -> Option<(String, String)> {
    fragment.copies.iter().find(|copy| copy.accepted)?;
    let why = "names and attributes that an fsync confirmed may be missing or old: an operator accepted a copy of the \
               metadata that may have lacked them";
    let advice = format!("save what is needed, and remove the buffer with `forebay rm {TOKEN}`");
    Some((why.into(), advice))
}

/// What is said of objects that were lost with the node whose place this one took.
fn lost(fragment: &FragmentStatus) -> Option<(String, String)> {
    let count = Some(fragment.lost.len() as u64).filter(|count| *count > 0)? + fragment.lost_more;
    let why = format!("{count} objects were lost with the node whose place it has taken");
    let advice = format!("`forebay scrub {TOKEN}` names the files: write them anew, or remove them");
    Some((why, advice))
}

/// Whether every part is served, nothing of it is lost, and all that is kept on another node as well is whole there.
pub(crate) fn are_whole(instance: &Instance, nodes: &[NodeView]) -> bool {
    let is_whole = |name: &NodeName| {
        let view = nodes.iter().find(|view| view.name == *name && view.online);
        let health = view.and_then(|view| view.health.as_ref());
        let part = health.and_then(|health| health.fragments.iter().find(|one| one.instance == instance.id));
        part.is_some_and(|part| {
            let copies = part.copies.iter().all(|copy| copy.whole);
            let mirrors = part.mirrors.iter().all(|mirror| mirror.whole);
            copies && mirrors && (!instance.is_mirrored() || !part.mirrors.is_empty())
        })
    };
    is_intact(instance, nodes) == Some(true) && instance.nodes.iter().all(is_whole)
}

/// Where nodes that were given up, and are back, keep what they had.
pub(crate) fn given_up(instance: &Instance, nodes: &[NodeView]) -> Vec<GivenUp> {
    let of_node = |view: &NodeView| {
        let health = view.health.as_ref().filter(|_| view.online)?;
        let mut fragments = health.fragments.iter().filter(|fragment| fragment.instance == instance.id);
        let path = fragments.find_map(|fragment| fragment.given_up.clone())?;
        Some(GivenUp { node: view.name.clone(), path })
    };
    nodes.iter().filter_map(of_node).collect()
}

/// Those that are not served, with why and what to do.
pub(crate) fn unserved(instance: &Instance, nodes: &[NodeView]) -> Vec<PartTrouble> {
    let trouble = |part| match part {
        Part::Awaited(trouble) | Part::Refused(Refused { trouble, .. }) => Some(trouble),
        Part::Served | Part::Unknown => None,
    };
    of(instance, nodes).filter_map(trouble).collect()
}

/// One of those that their nodes do not serve: first such as nobody tries again.
pub(crate) fn refused(instance: &Instance, nodes: &[NodeView]) -> Option<Refused> {
    let all = of(instance, nodes).filter_map(|part| match part {
        Part::Refused(refused) => Some(refused),
        _ => None,
    });
    all.min_by_key(|refused| refused.retried)
}

fn of<'a>(instance: &'a Instance, nodes: &'a [NodeView]) -> impl Iterator<Item = Part> + 'a {
    FragmentIndex::of_each(&instance.nodes).map(move |(part, name)| {
        let Some(view) = nodes.iter().find(|view| view.name == *name) else { return Part::Unknown };
        let trouble = |why: String, advice: String| PartTrouble { part, node: name.clone(), why, advice };
        let Some(health) = view.health.as_ref().filter(|_| view.online) else {
            return match &view.last_error {
                Some(why) => Part::Awaited(trouble(format!("the node does not answer: {why}"), come_back(view))),
                None => Part::Unknown,
            };
        };
        match health.fragments.iter().find(|fragment| fragment.instance == instance.id) {
            Some(FragmentStatus { error: Some(why), advice, retried, .. }) => {
                let advice = advice.clone().unwrap_or_else(|| look_into(&view.log, name));
                let advice = advised(&advice, *retried, view, nodes);
                Part::Refused(Refused { trouble: trouble(why.clone(), advice), retried: *retried })
            }
            Some(FragmentStatus { starting: true, .. }) => Part::Awaited(trouble(
                "it is being started, and the node with the copy of its metadata log is asked first".into(),
                if nodes_stay(nodes) { "wait some seconds" } else { "mount the buffer: that waits for it" }.into(),
            )),
            Some(_) => Part::Served,
            None if is_missed(instance, part, view) => {
                let why = "the node does not have it, although it was made there".into();
                let advice = "see whether the file system with the node's folder is mounted, mount it, and start \
                     the node again";
                let else_ = for_good(view.registration.is_some(), instance, (name, TOKEN));
                let trouble = trouble(why, format!("{advice}{}; {else_}", again(view, nodes)));
                Part::Refused(Refused { trouble, retried: false })
            }
            None => Part::Unknown,
        }
    })
}

/// Whether a change of the instance's key is not finished, or a node has said last that it takes a former one.
pub(crate) fn is_key_unfinished(instance: &Instance, nodes: &[NodeView]) -> bool {
    let views = nodes.iter().filter(|view| instance.nodes.contains(&view.name));
    let mut parts = views.filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    let takes_former =
        |part: &FragmentStatus| part.instance == instance.id && is_former(part.key_step, instance.key_step);
    !instance.key_step.is_multiple_of(STEPS) || parts.any(takes_former)
}

/// Whether a node that does not name the part should: it was made, and before the node was asked.
fn is_missed(instance: &Instance, part: FragmentIndex, view: &NodeView) -> bool {
    let made = instance.made.get(part.place()).copied().unwrap_or_default();
    made && !view.too_new.contains(&instance.id)
}

/// Whether the nodes run on after this command: those of one machine do while something is mounted.
fn nodes_stay(nodes: &[NodeView]) -> bool {
    let mounts = |view: &NodeView| view.health.as_ref().is_some_and(|health| !health.mounts.is_empty());
    nodes.iter().any(|view| view.registration.is_some() || mounts(view))
}

/// What the node advises, as far as the user can do that here.
fn advised(advice: &str, retried: bool, view: &NodeView, nodes: &[NodeView]) -> String {
    match (retried, &view.registration) {
        (true, Some(_)) => advice.to_owned(),
        (true, None) if nodes_stay(nodes) => "its node tries that again by itself".to_owned(),
        (true, None) => "mounting the buffer tries that again for some seconds".to_owned(),
        (false, _) => format!("{advice}{}", again(view, nodes)),
    }
}

/// How a node is started again that control runs by itself.
fn again(view: &NodeView, nodes: &[NodeView]) -> String {
    match (&view.registration, &view.health) {
        (None, Some(health)) if nodes_stay(nodes) => {
            format!(" (`kill {}` ends node {}, which is then started again)", health.pid, view.name)
        }
        (None, _) => format!(" (node {} ends with this command; mounting the buffer starts it)", view.name),
        _ => String::new(),
    }
}

/// What to do about a node that does not answer.
fn come_back(view: &NodeView) -> String {
    match view.registration {
        None => {
            format!("it is started again by itself; {} if it stays away", look_into(&view.log, &view.name))
        }
        Some(_) => format!("start forebay-node on {}, or repair the network to it", view.name),
    }
}

#[cfg(test)]
mod tests;
