//! A pool in whose buffers root has the rights of nobody.

use model::NodeName;
use wire::control::{CreatePersistent, ErrorCode};
use wire::node::NodeHealth;

use super::buffers::create;
use super::hosts::{cluster, job, on};
use super::*;
use crate::lifecycle::rekey;
use crate::node_api::NodeApi;
use crate::site::NodeView;

const OWN: &str = "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=1GiB\n";
const USES: &str = "#!/bin/sh\n#DW persistentdw name=data\n";

fn squashing() -> Fixture {
    let site = cluster();
    site.world().cluster.as_mut().expect("it is a cluster").pools[0].root_squash = true;
    Fixture::over(Arc::new(tempfile::tempdir().expect("a temporary folder")), site)
}

fn of(uid: u32, text: &str) -> Setup {
    Setup { owner: Owner { uid, gid: uid }, ..job(text) }
}

async fn with_a_buffer(it: &Fixture) {
    let create = CreatePersistent { shared: Some(true), owner: Owner { uid: 1, gid: 1 }, ..create("data") };
    it.app.run(&Token::literal("data"), Request::Create(Box::new(create))).await.unwrap();
}

#[tokio::test]
async fn a_pool_that_squashes_root_says_so_to_its_mounts_and_has_nothing_of_root_s() {
    let it = squashing();
    with_a_buffer(&it).await;
    it.setup(of(2, USES)).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
    let shown = || {
        let world = it.site.world();
        let mount = world.mounts.values().next().expect("it is mounted");
        mount.target.credential.clone().expect("it has one")
    };
    let before = shown();
    rekey::run(&it.app, &Token::literal("data")).await.unwrap();
    assert!(before.squashes_root() && shown().squashes_root() && before != shown());

    let it = squashing();
    with_a_buffer(&it).await;
    for text in [OWN, USES] {
        let refused = it.setup(of(0, text)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotAllowed, "{text}");
        assert!(refused.message.contains("root_squash"), "{refused}");
    }
    let create = CreatePersistent { owner: Owner { uid: 0, gid: 0 }, ..create("roots") };
    let refused = it.app.run(&Token::literal("roots"), Request::Create(Box::new(create))).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotAllowed);
}

#[tokio::test]
async fn what_root_owes_from_before_is_not_staged_with_the_rights_of_root() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().expect("a temporary folder")), cluster());
    let stages = format!("{OWN}#DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a\n");
    it.setup(of(0, &stages)).await.unwrap();
    it.site.world().cluster.as_mut().expect("it is a cluster").pools[0].root_squash = true;
    let refused = it.run(Request::DataIn).await.unwrap_err();
    assert!(refused.message.contains("root_squash"), "{refused}");
    assert!(it.site.world().stages.is_empty());
}

#[tokio::test]
async fn a_node_that_does_not_know_root_squash_is_named_and_given_nothing() {
    for older in ["s1", "c1"] {
        let it = squashing();
        with_a_buffer(&it).await;
        it.setup(of(2, USES)).await.unwrap();
        let name = NodeName::unchecked(older);
        let health = it.app.site.health(&name).await.expect("it is in memory");
        let health = Some(NodeHealth { knows: Vec::new(), ..health });
        for view in it.site.world().views.iter_mut().filter(|view| view.name == name) {
            *view = NodeView { health: health.clone(), ..view.clone() };
        }
        let refused = it.run(on(&["c1"])).await.unwrap_err();
        assert!(refused.message.contains(older) && refused.message.contains("root_squash"), "{refused}");
        assert!(it.site.world().mounts.is_empty());
    }
}

#[tokio::test]
async fn where_nothing_is_set_mounts_squash_nobody() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().expect("a temporary folder")), cluster());
    with_a_buffer(&it).await;
    it.setup(of(0, USES)).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
    let world = it.site.world();
    let mount = world.mounts.values().next().expect("it is mounted");
    assert!(!mount.target.credential.as_ref().expect("it has one").squashes_root());
}
