//! Buffers of a pool that encrypts.

use model::NodeName;
use wire::control::ErrorCode;
use wire::data::hello::ENCRYPTED;
use wire::node::{ENCRYPT, NodeHealth, ROOT_SQUASH};

use super::buffers::create;
use super::hosts::{cluster, job, on};
use super::*;
use crate::lifecycle::rekey;
use crate::node_api::NodeApi;
use crate::state::instances;

const JOB: &str = "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=4GiB\n";

fn fixture(encrypt: bool) -> Fixture {
    let it = Fixture::over(Arc::new(tempfile::tempdir().expect("a temporary folder")), cluster());
    set(&it, encrypt);
    it
}

fn set(it: &Fixture, encrypt: bool) {
    it.site.world().cluster.as_mut().expect("it is one").pools[0].encrypt = encrypt;
}

/// Whether all nodes that store, and all mounts, were told to encrypt; or none.
fn told(it: &Fixture) -> bool {
    let world = it.site.world();
    let parts = world.fragments.values().map(|spec| spec.key.starts_with(ENCRYPTED));
    let secrets = world.mounts.values().map(|spec| serde_json::to_value(&spec.target.credential).unwrap());
    let secrets = secrets.map(|credential| credential["secret"].as_str().unwrap().starts_with(ENCRYPTED));
    let said: Vec<bool> = parts.chain(secrets).collect();
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    said[0]
}

#[tokio::test]
async fn storage_nodes_and_mounts_of_a_pool_that_encrypts_are_told_so_and_no_others() {
    for encrypt in [false, true] {
        let it = fixture(encrypt);
        it.setup(job(JOB)).await.unwrap();
        it.run(Request::DataIn).await.unwrap();
        it.run(on(&["c1", "c2"])).await.unwrap();
        assert_eq!(it.site.world().mounts.len(), 2);
        assert_eq!(told(&it), encrypt);
    }
}

/// A node says whether it encrypts.
async fn says(it: &Fixture, name: &'static str, encrypts: bool) {
    let health = it.app.site.health(&NodeName::literal(name)).await.expect("it is in memory");
    let mut world = it.site.world();
    let name = NodeName::literal(name);
    let view = world.views.iter_mut().find(|view| view.name == name).expect("it is known");
    let knows = if encrypts { vec![ROOT_SQUASH, ENCRYPT] } else { vec![ROOT_SQUASH] };
    let knows = knows.into_iter().map(str::to_owned).collect();
    view.health = Some(NodeHealth { knows, ..health });
}

#[tokio::test]
async fn nodes_that_cannot_encrypt_are_refused_by_name() {
    for (node, stores) in [("s2", true), ("c2", false)] {
        let it = fixture(true);
        says(&it, node, false).await;
        let set_up = it.setup(job(JOB)).await;
        let ended = match set_up {
            Ok(_) => {
                it.run(Request::DataIn).await.unwrap();
                it.run(on(&["c1", "c2"])).await.map(drop)
            }
            Err(error) => Err(error),
        };
        let refused = ended.expect_err("it cannot");
        assert_eq!(refused.code, ErrorCode::NodeTooOld, "{refused}");
        assert!(refused.message.contains(&format!("on node {node} ")), "{refused}");
        assert_eq!(it.site.world().fragments.is_empty(), stores, "no node was told of such a key");
        // Where nothing is encrypted it does as well as any.
        let it = fixture(false);
        says(&it, node, false).await;
        it.setup(job(JOB)).await.unwrap();
        it.run(Request::DataIn).await.unwrap();
        it.run(on(&["c1", "c2"])).await.unwrap();
    }
}

#[tokio::test]
async fn the_next_key_of_a_buffer_is_as_its_pool_is_by_then() {
    let it = fixture(false);
    let data = Token::literal("data");
    it.app.run(&data, Request::Create(Box::new(create("data")))).await.unwrap();
    for encrypt in [false, true, true, false] {
        set(&it, encrypt);
        says(&it, "s1", true).await;
        rekey::run(&it.app, &data).await.unwrap();
        assert_eq!(told(&it), encrypt);
    }
    set(&it, true);
    says(&it, "s1", false).await;
    let refused = rekey::run(&it.app, &data).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NodeTooOld, "{refused}");
    assert!(!told(&it), "the former key is good");
    says(&it, "s1", true).await;
    rekey::run(&it.app, &data).await.unwrap();
    assert!(told(&it));
    let find = move |tx: &rusqlite::Transaction<'_>| instances::find(tx, &Token::literal("data"));
    let instance = it.app.database.transact(find).await.unwrap().expect("it is there");
    assert!(instance.key.starts_with(ENCRYPTED) && instance.other_key.is_empty());
}
