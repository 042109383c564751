//! Control's database is a copy from before a node was lost.

use model::NodeName;
use wire::control::{GiveUp, NodeRole, RegisterNode};
use wire::node::FragmentStatus;

use super::hosts::{fixture, job};
use super::*;
use crate::leftovers;
use crate::lifecycle::lost;
use crate::node_api::NodeApi;
use crate::site::Site;
use crate::state::nodes::Known;

/// Node s3 joins, and has `part` of the buffer of which s1 has one; s1 is away.
async fn joined_by_s3(it: &Fixture, part: FragmentStatus) {
    let registration = RegisterNode {
        name: NodeName::literal("s3"),
        roles: vec![NodeRole::Storage],
        address: "s3:7071".into(),
        pool: None,
        capacity_bytes: 4 << 30,
        mount_root: "/mnt".into(),
        version: String::new(),
    };
    it.site.admit(Known { registration, drained: None, host: String::new() }).expect("it is a cluster");
    {
        let mut world = it.site.world();
        let part = world.fragments.iter().find(|((node, _), _)| node == "s1");
        let (id, spec) = part.map(|((_, id), spec)| (id.clone(), spec.clone())).expect("it was made there");
        world.fragments.insert((NodeName::literal("s3"), id), spec);
        world.silent.insert(NodeName::literal("s1"));
    }
    let mut health = it.site.health(&NodeName::literal("s3")).await.expect("it answers");
    let seen = health.fragments.remove(0);
    health.fragments = vec![FragmentStatus { instance: seen.instance, index: seen.index, ..part }];
    let mut world = it.site.world();
    let view = world.views.iter_mut().find(|view| view.name == "s3").expect("it joined");
    view.health = Some(health);
}

#[tokio::test]
async fn a_node_that_was_given_up_since_is_given_up_again_for_the_one_that_took_its_place() {
    let it = fixture();
    it.setup(job("#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=6GiB\n")).await.unwrap();
    assert_eq!(it.status().await.instance.unwrap().nodes, ["s1", "s2"]);
    let told = {
        it.site.world().silent.insert(NodeName::literal("s1"));
        lost::run(&it.app, &NodeName::literal("s1"), &GiveUp::default()).await.unwrap()
    };
    assert_eq!(told.at_risk.len(), 1, "nobody knows whether a copy has all: {told:?}");

    joined_by_s3(&it, FragmentStatus { term: 1, ..FragmentStatus::default() }).await;
    it.site.world().silent.extend(["s2", "c2"].map(NodeName::literal));
    let told = lost::run(&it.app, &NodeName::literal("s1"), &GiveUp::default()).await.unwrap();
    assert!(told.at_risk.is_empty(), "{told:?}");
    assert_eq!(it.status().await.instance.unwrap().nodes, ["s3", "s2"]);

    // Who started just then looks for the lost one's copies, or mounts, at the old place.
    let hears = |node: &str| it.site.world().count(&format!("note_moved {node} i1 0 s3"));
    assert_eq!(["c1", "c2", "s2"].map(hears), [1, 0, 0]);
    it.site.world().silent.clear();
    it.site.world().silent.insert(NodeName::literal("s1"));
    leftovers::tidy(&it.app).await.unwrap();
    leftovers::tidy(&it.app).await.unwrap();
    assert_eq!(["c1", "c2", "s2"].map(hears), [1, 1, 1]);
}

#[tokio::test]
async fn a_node_that_keeps_a_part_that_was_given_up_gets_no_other_of_that_buffer() {
    let it = fixture();
    it.setup(job("#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=6GiB\n")).await.unwrap();
    let given_up = Some("/state/fragments/i1".into());
    let error = Some("another has taken its place".into());
    joined_by_s3(&it, FragmentStatus { given_up, error, ..FragmentStatus::default() }).await;
    let told = lost::run(&it.app, &NodeName::literal("s1"), &GiveUp { accept_loss: true }).await.unwrap();
    assert!(told.at_risk[0].why.contains("add a node to the pool"), "{told:?}");
    assert_eq!(it.status().await.instance.unwrap().nodes, ["s1", "s2"], "its record was changed");
}
