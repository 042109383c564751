//! Jobs on several hosts of a cluster.

use super::*;
use crate::leftovers;
use crate::site::{ClusterSetting, PoolKind, PoolSetting};
use crate::state::leftovers::all;
use crate::state::nodes::Known;
use model::{InstanceId, NodeName};
use wire::control::{ErrorCode, NodeRole, RegisterNode};

const JOB: &str = "#!/bin/sh\n\
    #DW jobdw type=scratch access_mode=striped,private capacity=4GiB\n\
    #DW stage_out type=file source=$DW_JOB_STRIPED/x destination=/pfs/x\n";

/// Storage on s1 and s2, four grains of 1 GiB each; compute on c1 and c2.
pub(super) fn cluster() -> MemorySite {
    let site = MemorySite::default();
    site.world().cluster = Some(ClusterSetting {
        nodes: Default::default(),
        pools: vec![PoolSetting {
            name: "wlm_pool".into(),
            granularity_bytes: 1 << 30,
            kind: PoolKind::Storage,
            persistent_redundancy: Redundancy::None,
            uids: Vec::new(),
            root_squash: false,
            encrypt: false,
        }],
        mount_root: "/mnt".into(),
        local_root: "/local".into(),
        fence_grace_s: 7,
        grace_s: 120,
        persistent_shared: true,
    });
    for (name, role) in [
        ("s1", NodeRole::Storage),
        ("s2", NodeRole::Storage),
        ("c1", NodeRole::Compute),
        ("c2", NodeRole::Compute),
    ] {
        let registration = RegisterNode {
            name: NodeName::unchecked(name),
            roles: vec![role],
            address: format!("{name}:7071"),
            pool: None,
            capacity_bytes: 4 << 30,
            mount_root: "/mnt".into(),
            version: String::new(),
        };
        site.admit(Known { registration, drained: None, host: String::new() }).expect("it is a cluster");
    }
    site
}

pub(super) fn fixture() -> Fixture {
    Fixture::over(Arc::new(tempfile::tempdir().expect("a temporary folder")), cluster())
}

/// A job of Slurm's.
pub(super) fn job(text: &str) -> Setup {
    Setup { caller: "SLURM".into(), fragments: None, ..request(text) }
}

pub(super) fn on(hosts: &[&str]) -> Request {
    let hosts = hosts.iter().map(|host| NodeName::unchecked(*host)).collect();
    Request::PreRun(PreRun { hosts, ..PreRun::default() })
}

async fn ready(it: &Fixture) {
    it.setup(job(JOB)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
}

#[tokio::test]
async fn every_host_gets_the_striped_namespace_and_a_private_one_of_its_own() {
    let it = fixture();
    ready(&it).await;
    it.run(on(&["c1", "c2"])).await.unwrap();
    let world = it.site.world();
    let number = |key: &str| world.mounts[key].target.namespace;
    assert_eq!((number("c1/7-striped"), number("c2/7-striped")), (0, 0));
    assert_eq!((number("c1/7-private"), number("c2/7-private")), (16, 17));
    assert!(!world.mounts["c1/7-striped"].exclusive && world.mounts["c1/7-private"].exclusive);
    assert_eq!(world.mounts["c1/7-striped"].mountpoint, Path::new("/mnt/7/striped"));
    assert!(world.mounts["c1/7-striped"].target.nodes.iter().all(|node| node.unix.is_none()));
    let ids = |node: &NodeName| -> Vec<u32> {
        let spec = &world.fragments[&(node.to_owned(), InstanceId::literal("i1"))];
        spec.namespaces.iter().map(|namespace| namespace.id).collect()
    };
    assert_eq!(
        (ids(&NodeName::literal("s1")), ids(&NodeName::literal("s2"))),
        (vec![0, 1, 16, 17], vec![0, 1, 16, 17])
    );
}

#[tokio::test]
async fn the_same_hosts_again_change_nothing() {
    let it = fixture();
    ready(&it).await;
    it.run(on(&["c2", "c1"])).await.unwrap();
    let before = it.site.world().mounts.clone();
    it.run(on(&["c2", "c1"])).await.unwrap();
    assert_eq!(it.site.world().mounts, before);
}

#[tokio::test]
async fn one_host_has_the_namespace_to_itself() {
    let it = fixture();
    ready(&it).await;
    it.run(on(&["c1"])).await.unwrap();
    assert!(it.site.world().mounts["c1/7-striped"].exclusive);
    it.run(post_run()).await.unwrap();
    let fenced = it.site.world().count("unmount c1/7-striped WithinSeconds(7)");
    assert_eq!(fenced, 1, "the job's processes may still write for the grace period");
}

#[tokio::test]
async fn a_host_that_cannot_mount_is_named_and_nothing_stays_mounted() {
    let it = fixture();
    ready(&it).await;
    it.site.world().refused.insert("mount c2/7-striped".into());
    let error = it.run(on(&["c1", "c2"])).await.unwrap_err();
    assert!(error.message.contains("c2"), "{error}");
    assert!(it.site.world().mounts.is_empty());
    let error = it.run(on(&["c1", "c9"])).await.unwrap_err();
    assert!(error.code == ErrorCode::NoSuchNode && error.message.contains("c9"), "{error}");
    assert_eq!(it.run(on(&["s1"])).await.unwrap_err().code, ErrorCode::NoSuchNode, "it only stores");
    assert_eq!(it.run(on(&[])).await.unwrap_err().code, ErrorCode::NoHosts);
}

#[tokio::test]
async fn what_a_silent_node_keeps_is_not_taken_for_what_it_was_given_since() {
    let it = fixture();
    ready(&it).await;
    it.site.world().silent.insert(NodeName::literal("c2"));
    it.run(on(&["c1", "c2"])).await.unwrap_err();
    assert!(!it.app.database.transact(all).await.unwrap().is_empty(), "c2 may have mounted it");
    it.site.world().silent.clear();
    it.run(on(&["c1", "c2"])).await.unwrap();
    leftovers::tidy(&it.app).await.unwrap();
    assert!(it.site.world().mounts.contains_key("c2/7-striped"), "the job is using it");
}

#[tokio::test]
async fn what_a_silent_node_keeps_is_taken_when_it_is_back() {
    let it = fixture();
    ready(&it).await;
    it.run(on(&["c1", "c2"])).await.unwrap();
    it.site.world().silent.extend(["c2", "s2"].map(NodeName::literal));
    it.run(post_run()).await.unwrap();
    assert_eq!(it.site.world().mounts.len(), 2, "those of c2");
    it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap();
    assert_eq!(it.status().await.phase, Phase::TornDown);
    leftovers::tidy(&it.app).await.unwrap();
    assert_eq!(it.site.world().fragments.len(), 1, "s2 is still silent");

    it.site.world().silent.clear();
    leftovers::tidy(&it.app).await.unwrap();
    assert!(it.is_empty());
    assert!(it.app.database.transact(all).await.unwrap().is_empty());
}

#[tokio::test]
async fn names_that_a_silent_node_still_has_are_not_given_again() {
    let it = fixture();
    ready(&it).await;
    it.run(on(&["c2"])).await.unwrap();
    it.site.world().silent.insert(NodeName::literal("c2"));
    it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap();
    it.site.world().silent.clear();
    ready(&it).await;
    it.run(on(&["c2"])).await.unwrap();
    assert!(it.site.world().mounts.contains_key("c2/7-r2-striped"));
}

#[tokio::test]
async fn a_drained_node_gets_nothing_new_and_two_jobs_do_not_get_the_same_room() {
    let it = fixture();
    let text = "#DW jobdw type=scratch access_mode=striped capacity=3GiB\n";
    it.site.admit(Known { drained: Some("a fan".into()), ..known(&it, "s2") }).unwrap();
    it.app.run(&Token::literal("1"), Request::Setup(Box::new(job(text)))).await.unwrap();
    assert_eq!(it.status_of(&Token::literal("1")).await.unwrap().instance.unwrap().nodes, ["s1"]);
    let error = it.app.run(&Token::literal("2"), Request::Setup(Box::new(job(text)))).await.unwrap_err();
    assert!(matches!(error.code, ErrorCode::PoolFull | ErrorCode::PoolTooSmall), "{error}");
    it.site.admit(Known { drained: None, ..known(&it, "s2") }).unwrap();
    it.app.run(&Token::literal("2"), Request::Setup(Box::new(job(text)))).await.unwrap();
    assert_eq!(it.status_of(&Token::literal("2")).await.unwrap().instance.unwrap().nodes, ["s2"]);
}

fn known(it: &Fixture, name: &str) -> Known {
    let view = it.site.nodes().into_iter().find(|view| view.name == name).expect("it registered");
    let registration = view.registration.expect("it registered");
    Known { registration, drained: view.drained, host: String::new() }
}

#[tokio::test]
async fn private_buffers_of_many_hosts_are_not_staged() {
    let it = fixture();
    let text = format!("{JOB}#DW stage_in type=file source=/pfs/a destination=$DW_JOB_PRIVATE/a\n");
    assert_eq!(it.setup(job(&text)).await.unwrap_err().code, ErrorCode::PrivateStage);
}
