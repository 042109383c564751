//! Buffers on the flash of the job's own nodes.

use super::hosts::{cluster, job, on};
use super::*;
use crate::leftovers;
use crate::site::{PoolKind, PoolSetting};
use model::NodeName;
use model::phase::Drain;
use wire::control::ErrorCode;
use wire::node::{LocalSpace, NodeHealth, StorageAddress};

const JOB: &str = "#!/bin/sh\n\
    #DW jobdw type=scratch access_mode=private pool=nvme capacity=3GiB drain=on-close\n\
    #DW stage_out type=directory source=$DW_JOB_PRIVATE/out/ destination=/pfs/out\n";

const HOSTS: [&str; 2] = ["c1", "c2"];

/// The cluster with a second pool; its compute nodes give flash to it.
fn fixture() -> Fixture {
    let site = cluster();
    let nvme = PoolSetting {
        name: "nvme".into(),
        granularity_bytes: 1 << 30,
        kind: PoolKind::NodeLocal,
        persistent_redundancy: Redundancy::Mirror,
        uids: Vec::new(),
        root_squash: false,
        encrypt: false,
    };
    site.world().cluster.as_mut().expect("it is one").pools.push(nvme);
    for view in &mut site.world().views {
        view.health = Some(NodeHealth {
            name: view.name.clone(),
            pid: 1,
            data: StorageAddress { node: view.name.clone(), tcp: String::new(), unix: None },
            fragments: Vec::new(),
            mounts: Vec::new(),
            stages: Vec::new(),
            local: Some(LocalSpace { allocated_bytes: 1 << 30, free_bytes: 7 << 30 }),
            knows: Vec::new(),
        });
    }
    Fixture::over(Arc::new(tempfile::tempdir().expect("a temporary folder")), site)
}

async fn started(it: &Fixture) {
    it.setup(job(JOB)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&HOSTS)).await.unwrap();
}

fn has(it: &Fixture, node: &NodeName) -> bool {
    it.site.world().locals.contains_key(&(node.to_owned(), TOKEN.to_owned()))
}

#[tokio::test]
async fn every_node_of_the_job_has_a_volume_of_that_size_and_the_job_is_told_where() {
    let it = fixture();
    it.setup(job(JOB)).await.unwrap();
    let variables = paths::paths(&it.app, &token()).await.unwrap().variables;
    assert_eq!(variables["DW_JOB_PRIVATE"], "/local/u/");
    assert_eq!((variables["BBPATH"].as_str(), variables["FOREBAY_LOCAL"].as_str()), ("/local/u", "/local/u"));
    let drain = (variables["PERSIST_DIR"].as_str(), variables["PFS_DIR"].as_str());
    assert_eq!(drain, ("/local/u/out", "/pfs/out"), "where `forebay drain wait` looks");
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&HOSTS)).await.unwrap();
    it.run(on(&HOSTS)).await.unwrap();
    let (spec, _) = it.site.world().locals[&(NodeName::literal("c2"), TOKEN.to_owned())].clone();
    assert_eq!((spec.user.as_str(), spec.owner.uid, spec.capacity_bytes), ("u", 1000, Some(3 << 30)));
    let drain = spec.drain.unwrap();
    assert_eq!((drain.from.as_str(), drain.to.as_path()), ("out", Path::new("/pfs/out")));
    assert_eq!((drain.session.as_str(), drain.when), (TOKEN, Some(Drain::OnClose)));
    assert!(it.site.world().mounts.is_empty() && it.site.world().fragments.is_empty());
    let shown = it.status().await.activations;
    assert!(
        shown.iter().all(|activation| activation.mounted && activation.mountpoint == Path::new("/local/u"))
    );
    it.run(post_run()).await.unwrap();
    assert!(!has(&it, &NodeName::literal("c1")) && !has(&it, &NodeName::literal("c2")));
    it.run(data_out()).await.unwrap();
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
}

#[tokio::test]
async fn the_stage_out_is_complete_when_every_node_has_drained_and_not_before() {
    let it = fixture();
    started(&it).await;
    it.site.world().hanging.insert("/pfs/out".into());
    it.run(post_run()).await.unwrap();
    let data_out = it.run(data_out());
    let drained = async {
        while it.status().await.stages[0].state != StageState::Active {
            tokio::task::yield_now().await;
        }
        it.site.world().locals.remove(&(NodeName::literal("c1"), TOKEN.to_owned()));
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        assert_eq!(it.status().await.stages[0].state, StageState::Active, "c2 has not drained");
        it.site.world().locals.clear();
    };
    let (ended, ()) = tokio::join!(data_out, drained);
    ended.unwrap();
    assert_eq!(it.status().await.stages[0].state, StageState::Complete);
}

#[tokio::test]
async fn a_volume_that_its_node_cannot_read_is_not_taken_for_drained() {
    let it = fixture();
    started(&it).await;
    it.site.world().hanging.insert("/pfs/out".into());
    it.run(post_run()).await.unwrap();
    it.site.world().locals.remove(&(NodeName::literal("c1"), TOKEN.to_owned()));
    // It was started again, and has not taken the volume up.
    it.site.world().failing.insert("c2".into());
    assert_eq!(it.run(data_out()).await.unwrap_err().code, ErrorCode::NodeDisk);
    assert_ne!(it.status().await.stages[0].state, StageState::Complete);
    it.site.world().failing.clear();
    it.site.world().hanging.clear();
    it.site.world().locals.clear();
    it.run(data_out()).await.unwrap();
}

#[tokio::test]
async fn what_is_owed_is_quarantined_and_what_is_given_up_is_discarded_also_at_a_node_that_was_away() {
    let it = fixture();
    started(&it).await;
    it.site.world().hanging.insert("/pfs/out".into());
    it.run(post_run()).await.unwrap();
    let kept = it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert_eq!(kept.renamed.as_ref().map(Token::as_str), Some("7-kept-1"));
    assert!(has(&it, &NodeName::literal("c1")) && has(&it, &NodeName::literal("c2")));
    it.site.world().silent.insert(NodeName::literal("c2"));
    it.app.teardown(&Token::literal("7-kept-1"), Teardown { hurry: true }).await.unwrap();
    assert!(!has(&it, &NodeName::literal("c1")) && has(&it, &NodeName::literal("c2")));
    // Nodes do not mistake the next job's volume for the one that is still to go.
    started_again(&it).await;
    it.site.world().silent.clear();
    leftovers::tidy(&it.app).await.unwrap();
    assert!(!has(&it, &NodeName::literal("c2")));
    assert_eq!(it.site.world().locals.len(), 1, "the next job's");
}

async fn started_again(it: &Fixture) {
    it.setup(job(JOB)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
}

#[tokio::test]
async fn what_private_volumes_cannot_do_is_refused_with_a_reason() {
    let it = fixture();
    let own = |options: &str| format!("#DW jobdw type=scratch pool=nvme capacity=1GiB {options}\n");
    let private = own("access_mode=private");
    let cases = [
        (own("access_mode=private").replace("1GiB", "9GiB"), ErrorCode::PoolTooSmall),
        (own("access_mode=private,striped"), ErrorCode::NotBuilt),
        (own("access_mode=striped").replace("1GiB", "99GiB"), ErrorCode::PoolTooSmall),
        (
            own("access_mode=striped") + "#DW stage_in type=file source=/a destination=$DW_JOB_STRIPED/a\n",
            ErrorCode::EarlyStage,
        ),
        (own("access_mode=private drain=on-close"), ErrorCode::NoDestination),
        (
            format!("{private}#DW stage_in type=file source=/a destination=$DW_JOB_PRIVATE/a\n"),
            ErrorCode::PrivateStage,
        ),
        (
            format!("{private}#DW stage_out type=file source=$DW_JOB_PRIVATE/a destination=/a\n"),
            ErrorCode::PrivateStage,
        ),
        ("#BB create_persistent name=x capacity=1GiB pool=nvme\n".to_owned(), ErrorCode::NotPersistent),
    ];
    for (text, code) in cases {
        let error = it.setup(job(&text)).await.unwrap_err();
        assert_eq!(error.code, code, "{text}: {error}");
    }
}

#[tokio::test]
async fn a_striped_buffer_lies_on_the_nodes_that_the_job_gets() {
    let it = fixture();
    let text = "#DW jobdw type=scratch access_mode=striped pool=nvme capacity=5GiB\n\
        #DW stage_out type=file source=$DW_JOB_STRIPED/x destination=/pfs/x\n";
    it.setup(job(text)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    assert!(it.site.world().fragments.is_empty(), "its nodes are not known yet");
    it.site.world().refused.insert("create_fragment c2".into());
    it.run(on(&HOSTS)).await.unwrap_err();
    assert!(it.is_empty(), "half a buffer is none");
    it.site.world().refused.clear();
    it.run(on(&HOSTS)).await.unwrap();
    it.run(on(&["c2", "c1"])).await.unwrap();
    let instance = it.status().await.instance.unwrap();
    assert_eq!(
        (instance.nodes.as_slice(), instance.capacity_bytes),
        (&HOSTS.map(NodeName::literal)[..], 6 << 30)
    );
    assert_eq!(it.site.world().fragments.len(), 2);
    assert_eq!(it.site.world().mounts.len(), 2);
    let variables = paths::paths(&it.app, &token()).await.unwrap().variables;
    assert_eq!(variables.keys().collect::<Vec<_>>(), ["DW_JOB_STRIPED"]);
    let error = it.run(on(&["c1"])).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OtherNodes, "{error}");
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap();
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_node_whose_flash_is_full_is_named() {
    let it = fixture();
    it.setup(job("#DW jobdw type=scratch access_mode=striped pool=nvme capacity=12GiB\n")).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    let view = |world: &mut crate::memory_site::World| {
        let health =
            world.views.iter_mut().find(|view| view.name == "c2").and_then(|view| view.health.as_mut());
        health.expect("it has one").local =
            Some(LocalSpace { allocated_bytes: 6 << 30, free_bytes: 2 << 30 });
    };
    view(&mut it.site.world());
    let error = it.run(on(&HOSTS)).await.unwrap_err();
    assert!(error.code == ErrorCode::NoRoom && error.message.contains("node c2 has 2 GiB"), "{error}");
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_volume_that_is_lost_under_its_job_is_named_and_never_made_anew() {
    let it = fixture();
    started(&it).await;
    it.run(on(&HOSTS)).await.unwrap();
    it.site.world().locals.retain(|(node, _), _| node != "c1");
    let error = it.run(on(&HOSTS)).await.expect_err("the job would find an empty volume");
    assert!(error.code == ErrorCode::LocalLost && error.message.contains("node c1"), "{error}");
    assert!(!has(&it, &NodeName::literal("c1")) && has(&it, &NodeName::literal("c2")));
}
