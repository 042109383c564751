//! A copy from before a change of the key is put back: of the database, or of a node's folder.

use model::InstanceId;

use super::*;
use crate::lifecycle::behind;
use crate::node_api::NodeApi;
use crate::state::leftovers::{self, Leftover};

/// A copy of the database as it is now.
fn copied(it: &Fixture) -> Arc<tempfile::TempDir> {
    let copy = Arc::new(tempfile::tempdir().unwrap());
    std::fs::copy(it.dir.path().join("control.db"), copy.path().join("control.db")).unwrap();
    copy
}

#[tokio::test]
async fn a_copy_of_the_database_with_a_former_key_is_refused_by_name() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    let copy = copied(&it);
    rekey::run(&it.app, &data()).await.unwrap();
    let older = Fixture::over(copy, it.site.clone());
    let error = older.run(on(&["c1"])).await.unwrap_err();
    assert!(error.code == ErrorCode::KeyBehind && error.advice.contains("newer"), "{error}");
}

/// Control is cut short in this step of its calls, and a copy of the database from before the change is put back, or
/// one of that moment when the key was changed since. Whether it was cut short.
async fn is_refused_or_harmless_after(step: usize, is_changed_since: bool) -> bool {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    it.run(on(&["c1", "c2"])).await.unwrap();
    let (name, before) = (data(), copied(&it));
    let begun = it.site.world().calls.len() * 2;
    it.site.world().die_at = Some(begun + step);
    let is_cut_short = tokio::select! {
        result = rekey::run(&it.app, &name) => result.is_err(),
        () = it.site.died.notified() => true,
    };
    // Whoever comes after it survives that step.
    it.site.world().die_at = None;
    let copy = if is_changed_since { copied(&it) } else { before };
    if is_changed_since {
        rekey::run(&it.app, &name).await.unwrap();
    }
    let older = Fixture::over(copy, it.site.clone());
    if let Err(error) = rekey::run(&older.app, &name).await {
        assert_eq!(error.code, ErrorCode::KeyBehind, "{error}");
    }
    assert_nobody_is_locked_out(&it.site);
    is_cut_short
}

#[tokio::test]
async fn an_older_database_that_is_put_back_in_the_middle_of_a_change_locks_nobody_out() {
    for is_changed_since in [false, true] {
        let mut step = 1;
        while is_refused_or_harmless_after(step, is_changed_since).await {
            step += 1;
        }
        assert!(step >= 20, "{step} steps only");
    }
}

#[tokio::test]
async fn a_node_whose_folder_is_an_old_copy_hears_so_and_is_brought_the_present_key_when_it_is_seen() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    let copy = it.site.world().fragments.clone();
    rekey::run(&it.app, &data()).await.unwrap();
    let (former, present) = (copy.values().next().unwrap().key.clone(), shown(&it.site));
    let s1 = NodeName::literal("s1");
    let part = copy.keys().find(|(node, _)| *node == s1).expect("it stores").clone();
    it.site.world().fragments.insert(part.clone(), copy[&part].clone());
    let told = {
        let s1 = s1.clone();
        it.app.database.transact(move |tx| behind::known(tx, &s1)).await.unwrap()
    };
    assert_eq!(told.iter().map(|part| (part.key_step, part.given_up)).collect::<Vec<_>>(), [(3, false)]);
    let health = it.site.health(&s1).await.unwrap();
    it.site.world().views.iter_mut().find(|view| view.name == s1).unwrap().health = Some(health);
    behind::tell(&it.app).await.unwrap();
    assert_eq!(it.site.world().fragments[&part].key, present);
    assert_is_worthless(&it.site, &former);
}

#[tokio::test]
async fn a_node_that_was_given_up_hears_at_its_start_that_it_is_to_serve_nothing() {
    let it = Fixture::over(Arc::new(tempfile::tempdir().unwrap()), cluster());
    used(&it, USES).await;
    let (s1, away) =
        (NodeName::literal("s1"), Leftover::fragment(&NodeName::literal("s9"), &InstanceId::literal("i1")));
    let told =
        async |name: NodeName| it.app.database.transact(move |tx| behind::known(tx, &name)).await.unwrap();
    it.app.database.transact(move |tx| leftovers::add(tx, &away)).await.unwrap();
    assert!(told(NodeName::literal("s9")).await[0].given_up);
    assert!(!told(s1).await[0].given_up);
}
