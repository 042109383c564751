//! The specification of a fragment.

use model::directive::Behaviour;
use model::phase::Redundancy;
use model::{FragmentIndex, InstanceId};
use serde_json::{Value, json};
use wire::node::{FragmentSpec, Missing, NamespaceSpec, VolumeKind};

use super::{address, assert_kept, assert_read_as, layout, owner, with};

fn fragment() -> (FragmentSpec, Value) {
    let (layout, layout_text) = layout();
    let (owner, owner_text) = owner();
    let (peer, peer_text) = address();
    let whole = FragmentSpec {
        instance: InstanceId::literal("i1"),
        index: FragmentIndex(3),
        capacity_bytes: 1,
        volume: VolumeKind::Image,
        key: "ab".into(),
        other_key: "ef".into(),
        key_step: 2,
        stage_verifier: "cd".into(),
        peers: vec![peer],
        namespaces: vec![NamespaceSpec { id: 7, layout, home: FragmentIndex(1), owner, mode: 0o700 }],
        grace_ms: 9,
        behaviour: Behaviour { redundancy: Redundancy::Mirror, ..Behaviour::default() }.of_fragments(),
        missing: Missing::NamesRestored,
        witnessed: true,
        term: 4,
    };
    let namespace = json!({"id": 7, "layout": layout_text, "home": 1, "owner": owner_text, "mode": 448});
    let text = json!({
        "instance": "i1", "index": 3, "capacity_bytes": 1, "volume": "image", "key": "ab", "other_key": "ef",
        "key_step": 2, "stage_verifier": "cd", "peers": [peer_text], "namespaces": [namespace], "grace_ms": 9,
        "mirrored": true, "missing": "names-restored", "witnessed": true, "term": 4
    });
    (whole, text)
}

#[test]
fn the_specification_of_a_fragment_has_the_text_that_it_always_had() {
    let (whole, text) = fragment();
    assert_kept(&whole, &text);
    // As older releases wrote it: before the first change of its keys, and before there was what came later.
    let unchanged = with(&text, &[("other_key", None), ("key_step", None)]);
    assert_kept(&FragmentSpec { other_key: String::new(), key_step: 0, ..whole }, &unchanged);
    let later = ["stage_verifier", "grace_ms", "mirrored", "missing", "witnessed", "term"];
    let values = [json!(""), json!(120_000), json!(false), json!("refused"), json!(false), json!(0)];
    let first = with(&unchanged, &later.map(|key| (key, None)));
    let filled: Vec<_> = later.into_iter().zip(values.map(Some)).collect();
    assert_read_as::<FragmentSpec>(&first, &with(&unchanged, &filled));
}
