//! Which parts of an instance its nodes serve, as they said last, and why they do not serve the others.
//!
//! **Invariant:** a part of which nobody has said anything is neither served nor lost: it is not known.

use wire::advice::TOKEN;
use wire::control::GivenUp;
use wire::node::{FragmentStatus, PartTrouble};

use crate::advice::look_into;

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
    Refused(Refused),
}

/// A part that its node does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why, and what to do as long as the nodes run as they do now.
    pub trouble: PartTrouble,
    /// The node tries it again by itself.
    pub retried: bool,
}

/// Whether all parts are served and no damage of them is known; `None`: not known.
pub fn is_intact(instance: &Instance, created_unix: u64, nodes: &[NodeView]) -> Option<bool> {
    let parts = || of(instance, created_unix, nodes);
    if parts().any(|part| matches!(part, Part::Refused(_))) {
        return Some(false);
    }
    if !damaged(instance, nodes).is_empty() {
        return Some(false);
    }
    parts().all(|part| part == Part::Served).then_some(true)
}

/// Those of which some bytes are damaged, or may be, with what to do, as their nodes said last.
pub fn damaged(instance: &Instance, nodes: &[NodeView]) -> Vec<PartTrouble> {
    let of_node = |(part, name): (u32, &String)| {
        let health = nodes.iter().find(|view| view.name == *name)?.health.as_ref()?;
        let fragment = health.fragments.iter().find(|fragment| fragment.instance == instance.id)?;
        let (why, advice) = lost(fragment).or_else(|| fragment.integrity.told())?;
        Some(PartTrouble { part, node: name.clone(), why, advice })
    };
    (0..).zip(&instance.nodes).filter_map(of_node).collect()
}

/// What is said of objects that were lost with the node whose place this one took.
fn lost(fragment: &FragmentStatus) -> Option<(String, String)> {
    let count = Some(fragment.lost.len()).filter(|count| *count > 0)?;
    let why = format!("{count} or more objects were lost with the node whose place it has taken");
    let advice = format!("`forebay scrub {TOKEN}` names the files: write them anew, or remove them");
    Some((why, advice))
}

/// Whether every part is served, nothing of it is lost, and all that is kept on another node as well is whole there.
pub fn are_whole(instance: &Instance, nodes: &[NodeView]) -> bool {
    let is_whole = |name: &String| {
        let view = nodes.iter().find(|view| view.name == *name && view.online);
        let health = view.and_then(|view| view.health.as_ref());
        let part = health.and_then(|health| health.fragments.iter().find(|one| one.instance == instance.id));
        part.is_some_and(|part| {
            let copies = part.copies.iter().all(|copy| copy.whole);
            let mirrors = part.mirrors.iter().all(|mirror| mirror.whole);
            copies && mirrors && (!instance.is_mirrored() || !part.mirrors.is_empty())
        })
    };
    // As if it was made long ago: who does not have its part by now does not serve it.
    is_intact(instance, 0, nodes) == Some(true) && instance.nodes.iter().all(is_whole)
}

/// Where nodes that were given up, and are back, keep what they had.
pub fn given_up(instance: &Instance, nodes: &[NodeView]) -> Vec<GivenUp> {
    let of_node = |view: &NodeView| {
        let health = view.health.as_ref().filter(|_| view.online)?;
        let mut fragments = health.fragments.iter().filter(|fragment| fragment.instance == instance.id);
        let path = fragments.find_map(|fragment| fragment.given_up.clone())?;
        Some(GivenUp { node: view.name.clone(), path })
    };
    nodes.iter().filter_map(of_node).collect()
}

/// Those that are not served, with why and what to do.
pub fn unserved(instance: &Instance, created_unix: u64, nodes: &[NodeView]) -> Vec<PartTrouble> {
    let trouble = |part| match part {
        Part::Awaited(trouble) | Part::Refused(Refused { trouble, .. }) => Some(trouble),
        Part::Served | Part::Unknown => None,
    };
    of(instance, created_unix, nodes).filter_map(trouble).collect()
}

/// One of those that their nodes do not serve: first such as nobody tries again.
pub fn refused(instance: &Instance, created_unix: u64, nodes: &[NodeView]) -> Option<Refused> {
    let all = of(instance, created_unix, nodes).filter_map(|part| match part {
        Part::Refused(refused) => Some(refused),
        _ => None,
    });
    all.min_by_key(|refused| refused.retried)
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
            None if settled => {
                let why = "the node does not have it, although it was made there".into();
                let advice = "see whether the file system with the node's folder is mounted, mount it, and start \
                     the node again";
                let trouble = trouble(why, format!("{advice}{}", again(view, nodes)));
                Part::Refused(Refused { trouble, retried: false })
            }
            None => Part::Unknown,
        }
    })
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
        Some(_) => format!("start forebay-node on {}, or mend the way to it", view.name),
    }
}

#[cfg(test)]
mod tests {
    use model::phase::{AccessMode, Coherence, Redundancy};
    use wire::control::VolumeKind;
    use wire::node::{IntegrityStatus, MountStatus, NodeHealth, StorageAddress};

    use super::*;

    fn instance() -> Instance {
        Instance {
            id: "i1".into(),
            key: String::new(),
            stage_key: String::new(),
            requested_bytes: 1,
            capacity_bytes: 1,
            volume: VolumeKind::Directory,
            pool: "local".into(),
            granularity_bytes: 1,
            nodes: vec!["n0".into()],
            access_modes: vec![AccessMode::Striped],
            coherence: Coherence::default(),
            drain: None,
            on_job_nodes: false,
            redundancy: Redundancy::default(),
        }
    }

    fn fragment() -> FragmentStatus {
        FragmentStatus { instance: "i1".into(), capacity_bytes: 1, ..FragmentStatus::default() }
    }

    fn view(fragments: Vec<FragmentStatus>) -> NodeView {
        let health = NodeHealth {
            name: "n0".into(),
            pid: 77,
            data: StorageAddress { node: "n0".into(), tcp: String::new(), unix: None },
            fragments,
            mounts: vec![],
            stages: vec![],
            local: None,
        };
        NodeView { name: "n0".into(), online: true, health: Some(health), ..NodeView::default() }
    }

    /// Whether it is intact, and what is said and refused of its one part.
    fn seen(view: &NodeView) -> (Option<bool>, Option<String>, bool) {
        let instance = instance();
        let nodes = std::slice::from_ref(view);
        let said = unserved(&instance, 0, nodes).pop().map(|part| format!("{}; {}", part.why, part.advice));
        (is_intact(&instance, 0, nodes), said, refused(&instance, 0, nodes).is_some())
    }

    #[test]
    fn what_is_refused_or_gone_is_told_apart_from_what_only_takes_its_time() {
        assert_eq!(seen(&view(vec![fragment()])), (Some(true), None, false));
        let broken = FragmentStatus { error: Some("a bad log".into()), ..fragment() };
        let (intact, said, refused) = seen(&view(vec![broken]));
        assert_eq!((intact, refused), (Some(false), true));
        assert!(said.is_some_and(|said| said.contains("a bad log") && said.contains("mounting the buffer")));
        let (intact, said, refused) = seen(&view(vec![]));
        assert_eq!((intact, refused), (Some(false), true));
        assert!(said.as_ref().is_some_and(|said| said.contains("does not have it")), "{said:?}");
        let integrity = IntegrityStatus { damaged: 1, ..IntegrityStatus::default() };
        let (intact, said, refused) = seen(&view(vec![FragmentStatus { integrity, ..fragment() }]));
        assert_eq!((intact, said, refused), (Some(false), None, false));
        let (intact, said, refused) = seen(&view(vec![FragmentStatus { starting: true, ..fragment() }]));
        assert_eq!((intact, said.is_some(), refused), (None, true, false));
    }

    #[test]
    fn a_part_that_lost_objects_or_has_no_mirror_as_it_should_is_not_whole() {
        let whole = |fragment| are_whole(&instance(), &[view(vec![fragment])]);
        assert!(whole(fragment()) && !whole(FragmentStatus { starting: true, ..fragment() }));
        let lost = FragmentStatus { lost: vec![(0, 7)], ..fragment() };
        assert_eq!(seen(&view(vec![lost.clone()])).0, Some(false));
        assert!(!whole(lost));
        let mirrored = Instance { redundancy: Redundancy::Mirror, ..instance() };
        assert!(!are_whole(&mirrored, &[view(vec![fragment()])]), "nothing is said of its mirror");
    }

    #[test]
    fn the_process_of_a_node_is_only_named_where_it_runs_on() {
        let mut running = view(vec![FragmentStatus { error: Some("a bad log".into()), ..fragment() }]);
        assert!(seen(&running).1.is_some_and(|said| !said.contains("kill")));
        let mount = MountStatus {
            id: "s1-striped".into(),
            mountpoint: "/mnt/fast".into(),
            mounted: true,
            pid: Some(78),
            interruptions: 0,
            error: None,
        };
        running.health.iter_mut().for_each(|health| health.mounts = vec![mount.clone()]);
        assert!(seen(&running).1.is_some_and(|said| said.contains("`kill 77`")));
        let starting = view(vec![FragmentStatus { starting: true, ..fragment() }]);
        assert!(seen(&starting).1.is_some_and(|said| said.contains("mount the buffer")));
    }

    #[test]
    fn of_a_node_that_has_not_answered_nothing_is_known() {
        let never = NodeView { name: "n0".into(), ..NodeView::default() };
        assert_eq!(seen(&never), (None, None, false));
        let gone = NodeView { online: false, last_error: Some("refused".into()), ..view(vec![fragment()]) };
        let (intact, said, refused) = seen(&gone);
        assert_eq!((intact, refused), (None, false));
        assert!(said.as_ref().is_some_and(|said| said.contains("does not answer: refused")), "{said:?}");
    }
}
