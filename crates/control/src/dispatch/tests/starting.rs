//! A buffer is to be mounted while a node is still starting its part, or does not have it any more.

use model::NodeName;
use wire::node::{FragmentStatus, NodeHealth};

use super::socket::metrics;
use super::*;
use crate::node_api::NodeApi;
use crate::site::NodeView;

/// Node n0 says this of its part.
async fn says(it: &Fixture, part: FragmentStatus) {
    let instance = it.status().await.instance.expect("it was set up").id;
    let health = NodeHealth {
        fragments: vec![FragmentStatus { instance, ..part }],
        ..it.app.site.health(&NodeName::literal("n0")).await.expect("it is in memory")
    };
    let view =
        NodeView { name: NodeName::literal("n0"), online: true, health: Some(health), ..NodeView::default() };
    it.site.world().views = vec![view];
}

/// Begins to mount while the part is being started; gives how that ended once the part is `then`.
async fn mounted_while_starting(then: FragmentStatus) -> (bool, Result<(), ApiError>) {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    says(&it, FragmentStatus { starting: true, ..FragmentStatus::default() }).await;
    let app = Arc::clone(&it.app);
    let mounts = tokio::spawn(async move { app.run(&token(), pre_run()).await });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let is_early = !it.site.world().mounts.is_empty();
    says(&it, then).await;
    (is_early, mounts.await.unwrap())
}

#[tokio::test]
async fn a_mount_waits_for_a_part_that_is_being_started_and_names_why_it_cannot_be_served() {
    let (is_early, ended) = mounted_while_starting(FragmentStatus::default()).await;
    assert!(!is_early && ended.is_ok(), "{ended:?}");

    let advice = Some(format!("`forebay rm {}`", wire::advice::TOKEN));
    let broken =
        FragmentStatus { error: Some("its log is lost".into()), advice, ..FragmentStatus::default() };
    let error = mounted_while_starting(broken).await.1.expect_err("it is not served");
    assert!(
        error.message.contains("node n0 does not serve its part of buffer 7: its log is lost"),
        "{error:?}"
    );
    assert!(error.advice.contains("`forebay rm 7`"), "{error:?}");
}

#[tokio::test]
async fn a_part_that_its_node_does_not_have_any_more_is_told_and_nothing_is_mounted_over_it() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    // As it was seen last: the node has been started anew since, and does not know the part.
    says(&it, FragmentStatus::default()).await;
    let seen = it.site.world().views.clone();
    let health = seen[0].health.clone().map(|health| NodeHealth { fragments: Vec::new(), ..health });
    it.site.world().healths.insert(NodeName::literal("n0"), health.expect("it said something"));
    let error = it.run(pre_run()).await.expect_err("it is not served");
    assert!(error.message.contains("node n0 does not serve its part of buffer 7"), "{error:?}");
    assert!(it.site.world().mounts.is_empty());

    let asked = Some(std::time::Instant::now());
    let health = it.site.world().healths.get("n0").cloned();
    it.site.world().views[0] = NodeView { health, asked, ..seen[0].clone() };
    let told = it.status().await.instance.unwrap().unserved;
    assert!(told.iter().any(|part| part.node == "n0" && part.why.contains("does not have it")), "{told:?}");
    let text = metrics(&it).await;
    assert!(text.contains("forebay_parts_unserved{node=\"n0\"} 1.0\n"), "{text}");
    // What a node said before the part was made says nothing of it.
    it.site.world().views[0].asked = None;
    assert!(it.status().await.instance.unwrap().unserved.is_empty());
}
