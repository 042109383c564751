//! Who has to wait, and who does not.

use std::time::Duration;

use super::*;

const ADA: Peer = Peer::User(4001);
const GRACE: Peer = Peer::User(4002);

/// Whether it was told to close.
async fn must_close(place: &Place) -> bool {
    tokio::time::timeout(Duration::from_millis(20), place.must_close()).await.is_ok()
}

#[tokio::test]
async fn who_has_most_connections_loses_the_one_that_has_waited_longest() {
    let connections = Connections::with_max(4, Vec::new());
    let ada: Vec<_> = (0..3).map(|_| connections.admit(ADA).unwrap()).collect();
    let grace = connections.admit(GRACE).unwrap();
    let busy = ada[0].work(4001, 0).await.unwrap();
    let late = connections.admit(GRACE).unwrap();
    assert!(must_close(&ada[1]).await && ada[1].work(4001, 0).await.is_none());
    drop(busy);
    // It waits again, as the last of hers.
    let later = connections.admit(ADA).unwrap();
    assert!(must_close(&ada[2]).await);
    for kept in [&ada[0], &grace, &late, &later] {
        assert!(!must_close(kept).await);
    }
}

#[tokio::test]
async fn where_all_are_busy_a_stranger_is_refused_and_a_service_is_not() {
    let connections = Connections::with_max(1, vec![77]);
    let ada = connections.admit(ADA).unwrap();
    let working = ada.work(4001, 0).await.unwrap();
    assert!(connections.admit(GRACE).is_none());
    assert!(connections.admit(Peer::User(77)).is_some() && connections.admit(Peer::User(0)).is_some());
    drop(working);
    assert!(connections.admit(GRACE).is_some());
}

#[tokio::test]
async fn a_user_s_requests_wait_for_his_own_only() {
    let connections = Connections::with_max(REQUESTS_MAX * 2, Vec::new());
    let mut working = Vec::new();
    for _ in 0..REQUESTS_MAX {
        working.push(connections.admit(ADA).unwrap().work(4001, 0).await.unwrap());
    }
    let (next, other) = (connections.admit(ADA).unwrap(), connections.admit(GRACE).unwrap());
    let waits = tokio::time::timeout(Duration::from_millis(20), next.work(4001, 0));
    assert!(waits.await.is_err() && other.work(4002, 0).await.is_some());
    drop(working);
    assert!(next.work(4001, 0).await.is_some());
}

#[tokio::test]
async fn a_user_s_large_bodies_come_one_after_another() {
    let connections = Connections::with_max(4, Vec::new());
    let places: Vec<_> = (0..3).map(|_| connections.admit(ADA).unwrap()).collect();
    let large = places[0].work(4001, 16 << 20).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(20), places[1].work(4001, 1));
    assert!(waits.await.is_err() && places[2].work(4001, 0).await.is_some());
    drop(large);
    assert!(places[1].work(4001, 16 << 20).await.is_some());
}

#[tokio::test]
async fn nothing_is_remembered_of_who_has_gone() {
    let connections = Connections::with_max(4, Vec::new());
    let ada = connections.admit(ADA).unwrap();
    drop(ada.work(4001, 0).await);
    drop(ada);
    assert!(connections.lock().crowd.is_empty());
}
