//! What is told of losses.

use wire::data::message::LossRequest;

use super::*;

#[test]
fn a_loss_of_what_nobody_knows_is_told_though_another_is_being_told() {
    let commits = Commits::new(Layout::striped(3), 0.into(), Remembered::default());
    commits.inherit();
    assert_eq!(commits.begin(1.into(), 10), None);
    assert!(commits.begin(1.into(), 11).is_some());
    let told = commits.doubts().unwrap();
    assert!(commits.begin(2.into(), 20).is_none() && commits.begin(2.into(), 21).is_some());
    commits.doubted(&told);
    let rest = commits.doubts().expect("the second loss is not told yet");
    commits.doubted(&rest);
    assert_eq!(commits.doubts(), None);
}

#[test]
fn a_successor_tells_the_home_what_its_predecessor_did_not_live_to_tell() {
    let (home, ino) = (0.into(), Ino(7));
    let mut failures = Failures::default();
    failures.failed(ino, 100, Errno::IO.raw_os_error());
    failures.failed(Ino(8), 100, Errno::IO.raw_os_error());
    failures.told(Ino(8), 99, Ino(8));
    let verifiers = vec![(home, 10), (1.into(), 20)];
    let commits = Commits::new(Layout::striped(2), home, Remembered { verifiers, failures });
    commits.resume();
    commits.understood(true);
    let mut told = std::iter::from_fn(|| commits.news().inspect(|news| commits.delivered(news)));
    let lost = LossRequest::Lost { fragment: home, verifier: 10, inos: vec![ino], any: false };
    assert!(told.any(|news| news == lost));
}

#[test]
fn while_a_change_is_under_way_not_everything_is_confirmed() {
    let commits = Commits::new(Layout::striped(2), 0.into(), Remembered::default());
    commits.understood(true);
    let now = commits.moment();
    assert_eq!(commits.all_confirmed(now), Some(0));
    let cut = Request::Unlink { parent: Ino(1), name: b"file".to_vec() };
    let under_way = commits.changing([&cut, &Request::Ping].into_iter());
    assert_eq!(commits.all_confirmed(now), None, "the node may have done it, and nobody here knows");
    drop(under_way);
    assert_eq!(commits.all_confirmed(now), Some(0));
}
