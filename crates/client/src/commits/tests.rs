//! What is told of losses.

use wire::data::message::{LossRequest, LostOf};

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
    let mut told = std::iter::from_fn(|| commits.news().inspect(|news| commits.delivered(news, true)));
    let lost = LossRequest::Lost { fragment: home, verifier: 10, inos: vec![ino], any: false };
    assert!(told.any(|news| news == lost));
}

#[test]
fn what_a_predecessor_left_is_in_doubt_until_the_home_sees_to_it() {
    let verifiers = vec![(0.into(), 10), (1.into(), 20)];
    for accepted in [false, true] {
        let remembered = Remembered { verifiers: verifiers.clone(), failures: Failures::default() };
        let commits = Commits::new(Layout::striped(2), 0.into(), remembered);
        commits.resume();
        commits.understood(true);
        while let Some(news) = commits.news() {
            commits.delivered(&news, accepted);
        }
        let loss = commits.begin(1.into(), 21);
        let lost = Loss { files: 0, others: true };
        assert_eq!(loss, (!accepted).then_some(lost), "the home has taken it: {accepted}");
        assert_eq!(commits.begin(1.into(), 22), None, "nothing was written since");
    }
}

#[test]
fn a_handle_counts_as_told_only_once_the_home_has_heard_of_the_loss() {
    let commits = Commits::new(Layout::striped(2), 0.into(), Remembered::default());
    let (ino, handle) = (Ino(7), Failures::stamp());
    commits.failed(1.into(), ino, Errno::IO);
    let tell = || commits.tell(ino, handle).is_err();
    assert_eq!([tell(), tell()], [true, true], "nobody has asked whether it takes part");
    commits.understood(true);
    assert_eq!([tell(), tell()], [true, true], "it was away");
    while let Some(news) = commits.news() {
        commits.delivered(&news, true);
    }
    assert_eq!([tell(), tell()], [true, false]);
}

#[test]
fn what_the_home_does_not_hear_of_a_predecessor_is_not_said_to_be_confirmed() {
    for refused in [false, true] {
        let verifiers = vec![(0.into(), 10), (1.into(), 20)];
        let remembered = Remembered { verifiers, failures: Failures::default() };
        let commits = Commits::new(Layout::striped(2), 0.into(), remembered);
        commits.resume();
        commits.understood(true);
        while let Some(news) = commits.news() {
            if refused { commits.refused(&news) } else { commits.delivered(&news, false) }
        }
        let now = commits.moment();
        commits.confirmed(&[], now);
        assert_eq!(commits.all_confirmed(now).is_none(), refused);
    }
}

#[test]
fn who_was_told_that_a_sync_has_succeeded_hears_of_the_one_beside_it_that_failed() {
    let (ino, handle) = (Ino(7), Failures::stamp());
    let commits = Commits::new(Layout::striped(2), 0.into(), Remembered::default());
    let beside = commits.syncing([Request::Sync { ino }].iter());
    let elsewhere = commits.syncing([Request::Sync { ino: Ino(8) }].iter());
    let heard = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            commits.wait_for_syncs(ino);
            commits.tell(ino, handle)
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
        commits.failed(1.into(), ino, Errno::NOSPC);
        drop(beside);
        other.join().unwrap()
    });
    drop(elsewhere);
    assert_eq!(heard, Err(Errno::NOSPC));
}

#[test]
fn an_older_loss_that_is_heard_of_late_hides_none_that_was_later() {
    for (told, ino) in [true, false].into_iter().flat_map(|told| [(told, Ino(7)), (told, EVERYTHING)]) {
        let (home, other) = (0.into(), 1.into());
        let commits = Commits::new(Layout::striped(2), home, Remembered::default());
        commits.understood(true);
        assert_eq!([home, other].map(|fragment| commits.begin(fragment, 10)), [None, None]);
        let handles = [Failures::stamp(), Failures::stamp()];
        let change = Request::Unlink { parent: Ino(1), name: b"file".to_vec() };
        commits.answered(home, 10, &change);
        commits.written(Ino(7));
        assert!(commits.begin(if ino == EVERYTHING { home } else { other }, 11).is_some());
        let of = LostOf { ino, fragment: 2.into(), verifier: 5 };
        while let Some(news) = commits.news() {
            commits.delivered(&news, true);
        }
        commits.hear(&[wire::data::message::Loss { number: 3, of, age_ms: 3_600_000, seconds: 0, told }]);
        let later = Failures::stamp();
        let heard = [handles[0], handles[1], later].map(|handle| commits.tell(ino, handle).is_err());
        assert_eq!(heard, [true, true, false], "the older was told: {told}, of {ino}");
    }
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
