//! The specification of a stage, and what it was told.

use model::Ino;
use model::phase::{Direction, StageKind};
use serde_json::{Value, json};
use wire::control::StagePair;
use wire::node::{PfsMount, StageControl, StagePolicy, StageSpec, Verify};

use super::{assert_kept, assert_read_as, owner, target, with};

fn policy() -> (StagePolicy, Value) {
    let chosen = StagePolicy {
        verify: Verify::Sampled,
        manifest: Some("/pfs/m".into()),
        bandwidth_bytes_per_s: Some(10),
        while_running: true,
    };
    let text = json!({
        "verify": "sampled", "manifest": "/pfs/m", "bandwidth_bytes_per_s": 10, "while_running": true
    });
    (chosen, text)
}

fn stage() -> (StageSpec, Value) {
    let (policy, policy_text) = policy();
    let (target, target_text) = target();
    let (owner, owner_text) = owner();
    let pfs_mount = PfsMount { path: "/pfs/a".into(), mountpoint: "/pfs".into(), kind: "lustre".into() };
    let spec = StageSpec {
        id: "3.0".into(),
        direction: Direction::Out,
        kind: StageKind::List,
        pfs_path: "/pfs/a".into(),
        buffer_path: "a".into(),
        buffer_name: "$DW_JOB_STRIPED".into(),
        source: "s".into(),
        destination: "d".into(),
        target,
        owner,
        pairs: vec![StagePair {
            buffer: "a".into(),
            pfs: "/pfs/a".into(),
            size_hint: Some(1),
            ino: Some(Ino(2)),
        }],
        source_ino: Some(Ino(3)),
        pfs_mounts: vec![pfs_mount],
        policy,
        ticket: "ab".into(),
    };
    let text = json!({
        "id": "3.0", "direction": "out", "kind": "list", "pfs_path": "/pfs/a", "buffer_path": "a",
        "buffer_name": "$DW_JOB_STRIPED", "source": "s", "destination": "d", "target": target_text,
        "owner": owner_text, "pairs": [{"buffer": "a", "pfs": "/pfs/a", "size_hint": 1, "ino": 2}], "source_ino": 3,
        "pfs_mounts": [{"path": "/pfs/a", "mountpoint": "/pfs", "kind": "lustre"}], "policy": policy_text,
        "ticket": "ab"
    });
    (spec, text)
}

#[test]
fn the_specification_of_a_stage_has_the_text_that_it_always_had() {
    let (spec, text) = stage();
    let (_, policy) = policy();
    assert_kept(&spec, &text);
    let later = ["pairs", "source_ino", "pfs_mounts", "policy", "ticket"];
    let none = with(
        &policy,
        &[
            ("verify", Some(json!("by_size"))),
            ("manifest", Some(Value::Null)),
            ("bandwidth_bytes_per_s", Some(Value::Null)),
            ("while_running", Some(json!(false))),
        ],
    );
    let values = [json!([]), Value::Null, json!([]), none, json!("")];
    let first = with(&text, &later.map(|key| (key, None)));
    let filled: Vec<_> = later.into_iter().zip(values.map(Some)).collect();
    assert_read_as::<StageSpec>(&first, &with(&text, &filled));
}

#[test]
fn a_pair_and_what_a_stage_was_told_have_the_texts_that_they_always_had() {
    let pair = json!({"buffer": "a", "pfs": "/pfs/a"});
    let filled = with(&pair, &[("size_hint", Some(Value::Null)), ("ino", Some(Value::Null))]);
    assert_read_as::<StagePair>(&pair, &filled);
    let control = StageControl { paused: true, bandwidth_bytes_per_s: Some(4) };
    assert_kept(&control, &json!({"paused": true, "bandwidth_bytes_per_s": 4}));
    assert_read_as::<StageControl>(&json!({}), &json!({"paused": false, "bandwidth_bytes_per_s": null}));
}
