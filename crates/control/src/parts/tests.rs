//! What is served, lost, or not known of a buffer's parts.

use model::directive::Behaviour;
use model::phase::{AccessMode, Redundancy};
use model::{Ino, InstanceId, NodeName};
use wire::control::VolumeKind;
use wire::node::{IntegrityStatus, MountStatus, NodeHealth, StorageAddress};

use super::*;

fn instance() -> Instance {
    Instance {
        id: InstanceId::literal("i1"),
        key: String::new(),
        other_key: String::new(),
        key_step: 0,
        stage_key: String::new(),
        requested_bytes: 1,
        capacity_bytes: 1,
        volume: VolumeKind::Directory,
        pool: "local".into(),
        granularity_bytes: 1,
        nodes: vec![NodeName::literal("n0")],
        made: vec![true],
        access_modes: vec![AccessMode::Striped],
        kind: crate::site::PoolKind::Disk,
        behaviour: Behaviour::default(),
    }
}

fn fragment() -> FragmentStatus {
    FragmentStatus { instance: InstanceId::literal("i1"), capacity_bytes: 1, ..FragmentStatus::default() }
}

fn view(fragments: Vec<FragmentStatus>) -> NodeView {
    let health = NodeHealth {
        name: NodeName::literal("n0"),
        pid: 77,
        data: StorageAddress { node: NodeName::literal("n0"), tcp: String::new(), unix: None },
        fragments,
        mounts: vec![],
        stages: vec![],
        local: None,
        knows: Vec::new(),
    };
    NodeView { name: NodeName::literal("n0"), online: true, health: Some(health), ..NodeView::default() }
}

/// Whether it is intact, and what is said and refused of its one part.
fn seen(view: &NodeView) -> (Option<bool>, Option<String>, bool) {
    let instance = instance();
    let nodes = std::slice::from_ref(view);
    let said = unserved(&instance, nodes).pop().map(|part| format!("{}; {}", part.why, part.advice));
    (is_intact(&instance, nodes), said, refused(&instance, nodes).is_some())
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
    let integrity = IntegrityStatus { lost_writes: 3, ..IntegrityStatus::default() };
    let lost = view(vec![FragmentStatus { integrity, ..fragment() }]);
    assert_eq!(seen(&lost), (Some(true), None, false), "nobody was promised that it is there");
    let said = lost_writes(&instance(), &[lost]).pop().expect("it is told all the same");
    assert!(said.why.starts_with("3 losses") && said.advice.contains("--repair"), "{said:?}");
    let (intact, said, refused) = seen(&view(vec![FragmentStatus { starting: true, ..fragment() }]));
    assert_eq!((intact, said.is_some(), refused), (None, true, false));
}

#[test]
fn a_part_that_lost_objects_or_has_no_mirror_as_it_should_is_not_whole() {
    let whole = |fragment| are_whole(&instance(), &[view(vec![fragment])]);
    assert!(whole(fragment()) && !whole(FragmentStatus { starting: true, ..fragment() }));
    let lost = FragmentStatus { lost: vec![(0, Ino(7))], ..fragment() };
    assert_eq!(seen(&view(vec![lost.clone()])).0, Some(false));
    assert!(!whole(lost));
    let behaviour = Behaviour { redundancy: Redundancy::Mirror, ..Behaviour::default() };
    let mirrored = Instance { behaviour, ..instance() };
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
    let never = NodeView { name: NodeName::literal("n0"), ..NodeView::default() };
    assert_eq!(seen(&never), (None, None, false));
    let gone = NodeView { online: false, last_error: Some("refused".into()), ..view(vec![fragment()]) };
    let (intact, said, refused) = seen(&gone);
    assert_eq!((intact, refused), (None, false));
    assert!(said.as_ref().is_some_and(|said| said.contains("does not answer: refused")), "{said:?}");
}

#[test]
fn giving_up_a_node_is_only_advised_where_another_can_take_its_place_or_a_mirror_can_fill_it() {
    let advised = |is_cluster, redundancy, nodes: &[&str]| {
        let nodes = nodes.iter().map(|name| NodeName::unchecked(*name)).collect();
        let behaviour = Behaviour { redundancy, ..Behaviour::default() };
        for_good(is_cluster, &Instance { nodes, behaviour, ..instance() }, (&NodeName::literal("n1"), "7"))
    };
    let (plain, mirror) = (Redundancy::None, Redundancy::Mirror);
    for (is_cluster, redundancy) in [(true, plain), (true, mirror), (false, mirror)] {
        let told = advised(is_cluster, redundancy, &["n0", "n1"]);
        assert!(told.contains("`forebay node lost n1`") && told.contains("stop") == is_cluster, "{told}");
    }
    for told in [advised(false, plain, &["n0", "n1"]), advised(true, plain, &["n1"])] {
        assert!(!told.contains("node lost") && told.contains("`forebay rm 7`"), "{told}");
    }
}
