//! The key of a buffer is changed while jobs use it, and anything may come in between.

mod copies;

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use wire::control::CreatePersistent;
use wire::data::Credential;
use wire::data::credential::{Capability, Identity};

use super::buffers::create;
use super::hosts::{cluster, job, on};
use super::*;
use crate::lifecycle::buffers;
use crate::lifecycle::mounting::{self, Mounting};
use crate::lifecycle::rekey;
use crate::state::activations::Activation;
use crate::state::instances;

fn life() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn data() -> Token {
    Token::literal("data")
}

/// A persistent buffer on two nodes, and a job that is to mount it.
async fn used(it: &Fixture, script: &str) {
    let modes = vec![AccessMode::Striped, AccessMode::Private];
    let create = CreatePersistent { access_modes: modes, shared: Some(true), ..create("data") };
    it.app.run(&data(), Request::Create(Box::new(create))).await.unwrap();
    it.setup(job(script)).await.unwrap();
}

const USES: &str = "#!/bin/sh\n#DW persistentdw name=data\n";

const STAGES: &str = "#!/bin/sh\n#DW persistentdw name=data\n\
    #DW stage_in type=file source=/pfs/a destination=$DW_PERSISTENT_STRIPED_data/a\n";

/// The key that the first node shows.
fn shown(site: &MemorySite) -> String {
    site.world().fragments.values().next().expect("there is one").key.clone()
}

/// The keys that control has noted: what is shown, and what is taken as well.
async fn noted(it: &Fixture) -> (String, String) {
    let find = |tx: &rusqlite::Transaction<'_>| instances::find(tx, &data());
    let instance = it.app.database.transact(find).await.unwrap().expect("it is there");
    (instance.key, instance.other_key)
}

/// What status says.
async fn is_unfinished(it: &Fixture) -> bool {
    let status = it.status_of(&data()).await.unwrap();
    let command = status.instance.expect("it has one").finish_key;
    command.inspect(|command| assert_eq!(command, "forebay rekey data")).is_some()
}

/// Whoever has something to show is let in everywhere: every node by the others, and every mount.
fn assert_nobody_is_locked_out(site: &MemorySite) {
    let world = site.world();
    let nodes = || world.fragments.values().map(|spec| spec.keys().expect("it has a key"));
    for of in nodes() {
        assert!(
            nodes().all(|at| at.find(|key| *key == of.shown()).is_some()),
            "a node is refused by another"
        );
    }
    for (id, mount) in &world.mounts {
        let shows = mount.target.credential.as_ref().expect("it has one");
        let namespace = mount.target.namespace;
        let is_of = |key: &_| {
            let capability = Capability { identity: Identity::Kernel, namespace, expires_s: None };
            Credential::derive(key, capability) == *shows
        };
        assert!(nodes().all(|at| at.find(is_of).is_some()), "{id} is refused");
    }
}

fn assert_is_worthless(site: &MemorySite, old: &str) {
    for spec in site.world().fragments.values() {
        assert!(spec.key != old && spec.other_key.is_empty(), "node of part {} takes it", spec.index);
    }
}

/// Changes the key; control dies at this step of its calls, and its successor is asked again. Whether it died.
fn dies_at(step: usize) -> bool {
    let (dir, site) = (Arc::new(tempfile::tempdir().unwrap()), cluster());
    let mut runtime = life();
    let it = runtime.block_on(async {
        let it = Fixture::over(Arc::clone(&dir), site.clone());
        used(&it, USES).await;
        it.run(on(&["c1", "c2"])).await.unwrap();
        it
    });
    let (old, name) = (shown(&site), data());
    let made = site.world().calls.len() * 2;
    site.world().die_at = Some(made + step);
    let done = runtime.block_on(async {
        tokio::select! {
            result = rekey::run(&it.app, &name) => Some(result),
            () = site.died.notified() => None,
        }
    });
    assert_nobody_is_locked_out(&site);
    if done.is_none() {
        runtime.shutdown_timeout(Duration::from_secs(60));
        runtime = life();
        let it = it.restart();
        let rekeyed = runtime.block_on(rekey::run(&it.app, &name)).expect("it goes on");
        assert_eq!((rekeyed.nodes.len(), rekeyed.mounts), (2, 4));
    }
    assert_nobody_is_locked_out(&site);
    assert_is_worthless(&site, &old);
    done.is_none()
}

#[test]
fn a_death_at_any_step_of_a_change_of_keys_locks_nobody_out_and_is_made_good_by_calling_again() {
    let steps = (1..).take_while(|step| dies_at(*step)).count();
    assert!(steps >= 20, "two nodes are told three times and four mounts once, which is more than {steps}");
}

#[tokio::test]
async fn a_node_that_is_away_at_any_step_is_named_and_what_was_drawn_before_a_call_is_worthless_after_it() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    it.run(on(&["c1"])).await.unwrap();
    for away in ["s1", "c1"].map(NodeName::literal) {
        let old = shown(&it.site);
        it.site.world().silent.insert(away.clone());
        let error = rekey::run(&it.app, &data()).await.unwrap_err();
        assert!(error.message.contains("still opens it") && error.message.contains(away.as_str()), "{error}");
        assert_nobody_is_locked_out(&it.site);
        // Where a node has said nothing yet no change is begun without it.
        assert_eq!(is_unfinished(&it).await, away == "c1", "what status says while {away} is away");
        it.site.world().silent.clear();
        let drawn = noted(&it).await;
        rekey::run(&it.app, &data()).await.unwrap();
        assert_nobody_is_locked_out(&it.site);
        for key in [old, drawn.0, drawn.1] {
            assert_is_worthless(&it.site, &key);
        }
        assert!(!is_unfinished(&it).await);
    }
}

#[tokio::test]
async fn a_job_that_begins_to_mount_before_the_change_and_mounts_after_it_has_the_new_key() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    let session = it.app.session(&token()).await.unwrap();
    let found = buffers::of(&it.app, &session).await.unwrap();
    let old = shown(&it.site);
    rekey::run(&it.app, &data()).await.unwrap();
    // Also what waits for the nodes of the job is asked for late.
    crate::lifecycle::fragments::make(&it.app, &found[0].described).await.unwrap();
    let activation = Activation {
        buffer: found[0].which.clone(),
        access_mode: AccessMode::Striped,
        node: NodeName::literal("c1"),
        ordinal: 0,
        shared: false,
        mountpoint: "/mnt/7".into(),
        mounted: true,
        interruptions: 0,
    };
    let wanted =
        Mounting { session: &session, buffer: &found[0], activation, is_used: false, one_host: true };
    mounting::mount(&it.app, wanted).await.unwrap();
    assert_nobody_is_locked_out(&it.site);
    assert_is_worthless(&it.site, &old);
}

#[tokio::test]
async fn two_changes_at_once_end_with_one_key() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    it.run(on(&["c1", "c2"])).await.unwrap();
    let (old, name) = (shown(&it.site), data());
    let (one, other) = tokio::join!(rekey::run(&it.app, &name), rekey::run(&it.app, &name));
    one.and(other).unwrap();
    assert_nobody_is_locked_out(&it.site);
    assert_is_worthless(&it.site, &old);
}

#[tokio::test]
async fn while_a_session_stages_the_key_is_not_changed() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    it.site.world().hanging.insert("/pfs/a".into());
    used(&it, STAGES).await;
    let old = shown(&it.site);
    let staging = async {
        while it.app.running(&token()) != Some(Function::DataIn) {
            tokio::task::yield_now().await;
        }
        let error = rekey::run(&it.app, &data()).await.unwrap_err();
        assert!(error.code == ErrorCode::KeyInUse && error.message.contains("still opens it"), "{error}");
    };
    tokio::select! {
        result = it.run(Request::DataIn) => panic!("{result:?}, but its stage hangs"),
        () = staging => {}
    }
    assert_eq!(shown(&it.site), old);
    it.app.cancel(&token()).await.unwrap();
    rekey::run(&it.app, &data()).await.unwrap();
    assert_is_worthless(&it.site, &old);
}

#[tokio::test]
async fn the_key_of_a_buffer_that_is_gone_is_not_changed() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    it.app.teardown(&token(), Teardown { hurry: true }).await.unwrap();
    let (name, calls) = (data(), it.site.world().count("create_fragment"));
    it.app.teardown(&name, Teardown::default()).await.unwrap();
    let error = rekey::run(&it.app, &name).await.unwrap_err();
    assert!(error.code == ErrorCode::NoInstance && !error.message.contains("opens it"), "{error}");
    assert_eq!(it.site.world().count("create_fragment"), calls, "nothing is made again");
    assert!(it.is_empty());
}
