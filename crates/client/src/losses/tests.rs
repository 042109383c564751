//! Which losses are news to a client.

use super::*;

/// The files of each loss that the home is told of now, in order.
fn told(losses: &mut Losses) -> Vec<Vec<u64>> {
    let mut told = Vec::new();
    while let Some(news) = losses.news() {
        losses.delivered(&news);
        if let LossRequest::Lost { inos, .. } = news {
            told.push(inos.iter().map(|ino| ino.0).collect());
        }
    }
    told
}

fn loss(number: u64, told: bool) -> Loss {
    let of = LostOf { ino: Ino(5), fragment: FragmentIndex(1), verifier: 7 };
    Loss { number, of, age_ms: 0, seconds: 0, told }
}

#[test]
fn a_disk_that_fails_twice_has_lost_something_twice() {
    let mut losses = Losses::default();
    losses.lost(FragmentIndex(1), 7, &[Ino(5)], false);
    assert!(!losses.hear(&loss(3, false)), "it is the one that this client has told of");
    losses.heard(3);
    assert!(losses.hear(&loss(4, false)), "nobody was told of the second");
    losses.heard(4);
    assert!(!losses.hear(&loss(4, false)) && !losses.hear(&loss(4, true)));
}

#[test]
fn a_successor_hears_of_what_others_have_lost_of_a_file() {
    let mut losses = Losses::default();
    losses.resume();
    losses.lost(FragmentIndex(0), 5, &[Ino(5)], false);
    assert!(losses.hear(&loss(3, false)));
}

#[test]
fn what_comes_late_is_told_before_the_end_of_what_was_lost() {
    let (mut losses, fragment) = (Losses::default(), FragmentIndex(1));
    losses.understood(true);
    losses.lost(fragment, 7, &[Ino(1), Ino(2)], false);
    losses.lost(fragment, 7, &[Ino(3)], false);
    assert_eq!(told(&mut losses), [vec![1, 2, 3], vec![]]);
    losses.lost(fragment, 7, &[], false);
    losses.lost(fragment, 7, &[Ino(4)], false);
    losses.lost(fragment, 7, &[Ino(5)], false);
    assert_eq!(told(&mut losses), [vec![], vec![4, 5], vec![]], "an end has no names");
}
