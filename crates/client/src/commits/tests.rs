//! What is told of losses.

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
