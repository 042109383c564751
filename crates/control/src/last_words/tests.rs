//! What is believed of what nodes said, and what they are told.

use model::{InstanceId, NodeName};
use wire::node::{MirrorStatus, StorageAddress};

use super::*;

fn health(fragment: FragmentStatus) -> NodeHealth {
    NodeHealth {
        name: NodeName::literal("n1"),
        pid: 1,
        data: StorageAddress { node: NodeName::literal("n1"), tcp: String::new(), unix: None },
        fragments: vec![FragmentStatus { instance: InstanceId::literal("i1"), ..fragment }],
        mounts: Vec::new(),
        stages: Vec::new(),
        local: None,
        knows: Vec::new(),
    }
}

fn open(folder: &Path, former: Option<&str>, life: &str) -> LastWords {
    LastWords::open(folder, (former, life), &HashSet::from([InstanceId::literal("i1")])).unwrap()
}

fn mirrored(doubt: Option<u64>) -> FragmentStatus {
    FragmentStatus {
        mirrors: vec![MirrorStatus { whole: doubt.is_none(), named: doubt.is_none(), ..mirror(doubt) }],
        witnessed: true,
        ..FragmentStatus::default()
    }
}

fn lacking(doubt: Option<u64>) -> FragmentStatus {
    FragmentStatus { mirrors: vec![mirror(doubt)], ..mirrored(None) }
}

fn mirror(doubt: Option<u64>) -> MirrorStatus {
    MirrorStatus {
        namespace: 0,
        node: NodeName::literal("n1"),
        mirror: NodeName::literal("n2"),
        whole: false,
        named: false,
        behind: None,
        error: None,
        doubt,
        repaired: 0,
        making_ms: None,
    }
}

#[test]
fn a_start_that_serves_nothing_does_not_unsay_that_the_mirror_lacks_something() {
    let folder = tempfile::tempdir().unwrap();
    let words = open(folder.path(), None, "a");
    words.hear(&NodeName::literal("n1"), &health(mirrored(Some(7))));
    let refused = FragmentStatus { error: Some("damaged".into()), ..FragmentStatus::default() };
    words.hear(&NodeName::literal("n1"), &health(refused));
    words.hear(
        &NodeName::literal("n1"),
        &health(FragmentStatus { starting: true, ..FragmentStatus::default() }),
    );
    assert_eq!(
        words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")).unwrap().lacks_data,
        Some(NodeName::literal("n2"))
    );
    // It is served, though its space cannot be measured.
    let served = FragmentStatus { error: Some("cannot measure".into()), ..mirrored(None) };
    words.hear(&NodeName::literal("n1"), &health(served));
    assert_eq!(words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), Some(Said::default()));
}

#[test]
fn a_node_is_not_told_that_its_doubt_is_known_once_its_part_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let words = open(folder.path(), None, "a");
    assert_eq!(words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), None);
    assert_eq!(words.hear(&NodeName::literal("n1"), &health(mirrored(Some(7)))), []);
    words.keep(&NodeName::literal("n1"), &InstanceId::literal("i1"));
    assert_eq!(
        words.hear(&NodeName::literal("n1"), &health(mirrored(Some(7)))),
        [(InstanceId::literal("i1"), vec![7])]
    );
    assert!(
        words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")).unwrap().lacks_data.is_some(),
        "it was told: that counts"
    );
}

#[test]
fn a_start_that_asks_for_nothing_does_not_unsay_that_the_mirror_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let words = open(folder.path(), None, "a");
    words.hear(&NodeName::literal("n1"), &health(lacking(None)));
    assert!(
        words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")).unwrap().lacks_data.is_some(),
        "nothing is known of before"
    );
    words.hear(&NodeName::literal("n1"), &health(mirrored(None)));
    words.hear(&NodeName::literal("n1"), &health(lacking(None)));
    assert_eq!(words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), Some(Said::default()));
    assert!(
        words.is_proven(&NodeName::literal("n1"), &InstanceId::literal("i1"), 0)
            && !words.is_proven(&NodeName::literal("n1"), &InstanceId::literal("i1"), 1)
    );
    words.hear(&NodeName::literal("n1"), &health(FragmentStatus { term: 1, ..lacking(None) }));
    assert!(
        words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")).unwrap().lacks_data.is_some(),
        "that was another"
    );
    words.hear(&NodeName::literal("n1"), &health(FragmentStatus { term: 1, ..mirrored(None) }));
    words.hear(&NodeName::literal("n1"), &health(FragmentStatus { term: 1, ..lacking(Some(7)) }));
    assert!(
        words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")).unwrap().lacks_data.is_some(),
        "it asks to answer alone"
    );
}

#[test]
fn nothing_is_heard_of_one_that_answers_without_control_or_whose_place_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let words = open(folder.path(), None, "a");
    words.hear(&NodeName::literal("n1"), &health(FragmentStatus { witnessed: false, ..mirrored(None) }));
    assert_eq!(words.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), None);
    words.keep(&NodeName::literal("n1"), &InstanceId::literal("i1"));
    words.hear(&NodeName::literal("n1"), &health(FragmentStatus { term: 1, ..mirrored(Some(7)) }));
    let next = open(folder.path(), Some("a"), "b");
    assert_eq!(
        next.hear(&NodeName::literal("n1"), &health(mirrored(Some(8)))),
        [],
        "it must answer nothing alone"
    );
    next.hear(&NodeName::literal("n1"), &health(mirrored(None)));
    assert!(next.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")).unwrap().lacks_data.is_some());
}

#[test]
fn what_was_said_is_believed_by_the_next_life_of_the_database_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), None, "a").hear(&NodeName::literal("n1"), &health(mirrored(None)));
    let next = open(folder.path(), Some("a"), "b");
    assert_eq!(next.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), Some(Said::default()));
    // A copy of the database from the life a is put back.
    let other = open(folder.path(), Some("a"), "c");
    assert_eq!(other.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), None);
    other.hear(&NodeName::literal("n1"), &health(mirrored(Some(7))));
    assert!(
        open(folder.path(), Some("c"), "d")
            .give_up(&NodeName::literal("n1"), &InstanceId::literal("i1"))
            .unwrap()
            .lacks_data
            .is_some()
    );
}

#[test]
fn what_is_damaged_or_of_a_newer_forebay_counts_as_nothing_said() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["{", r#"{"format":2}"#] {
        open(folder.path(), None, "a").hear(&NodeName::literal("n1"), &health(mirrored(None)));
        std::fs::write(folder.path().join("last-words.json"), text).unwrap();
        let next = open(folder.path(), Some("a"), "b");
        assert_eq!(next.give_up(&NodeName::literal("n1"), &InstanceId::literal("i1")), None, "{text}");
    }
}

#[test]
fn a_node_is_not_told_that_its_doubt_is_known_before_that_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let words = open(folder.path(), None, "a");
    std::fs::create_dir(folder.path().join("last-words.new")).unwrap();
    for _ in 0..2 {
        assert_eq!(words.hear(&NodeName::literal("n1"), &health(mirrored(Some(7)))), []);
    }
    std::fs::remove_dir(folder.path().join("last-words.new")).unwrap();
    assert_eq!(words.hear(&NodeName::literal("n1"), &health(mirrored(Some(7)))).len(), 1);
}
