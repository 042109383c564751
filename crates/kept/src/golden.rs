//! Texts as every release since 0.1.0 has written them: each is what is written of a value, and is read as that.

mod fragment;
mod mount;
mod report;
mod stage;

use model::buffer::BufferRef;
use model::directive::Behaviour;
use model::phase::{
    AccessMode, Coherence, Direction, Drain, Function, Phase, Redundancy, StageKind, StageState,
};
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName, Token};
use serde_json::{Value, json};
use wire::control::{ApiError, Blame, ErrorCode, Owner, Script, Side};
use wire::data::credential::{Capability, Credential, Identity, User};
use wire::data::hello::Key;
use wire::node::{LocalDrain, LocalSpec, Missing, NamespaceTarget, StorageAddress, Verify, VolumeKind};

use crate::{OnDisk, decode, encode, from_text, to_text};

/// What is written of `value` is `text`, and is read as `value`, in a file with a format as without one.
fn assert_kept<T: OnDisk + Clone + PartialEq + std::fmt::Debug>(value: &T, text: &Value) {
    assert_eq!(serde_json::to_value(value.to_form()).unwrap(), *text);
    assert_eq!(from_text::<T>(to_text(value).unwrap().as_bytes()).unwrap(), *value);
    assert_eq!(from_text::<T>(text.to_string().as_bytes()).unwrap(), *value);
    assert_eq!(decode::<T>(&encode(value, 1).unwrap(), 1).unwrap(), *value);
}

/// Each of these is that word.
fn assert_words<T: OnDisk + Clone + PartialEq + std::fmt::Debug>(words: &[(T, &str)]) {
    words.iter().for_each(|(value, word)| assert_kept(value, &json!(word)));
}

/// What is read of a text that lacks what came later is written as this.
fn assert_read_as<T: OnDisk>(old: &Value, now: &Value) {
    let read: T = from_text(old.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(read.to_form()).unwrap(), *now);
}

/// `base` with these keys, or with `None` without them.
fn with(base: &Value, keys: &[(&str, Option<Value>)]) -> Value {
    let mut changed = base.clone();
    for (key, value) in keys {
        match value {
            Some(value) => changed[*key] = value.clone(),
            None => drop(changed.as_object_mut().unwrap().remove(*key)),
        }
    }
    changed
}

fn address() -> (StorageAddress, Value) {
    let address =
        StorageAddress { node: NodeName::literal("n0"), tcp: "h:1".into(), unix: Some("/s".into()) };
    (address, json!({"node": "n0", "tcp": "h:1", "unix": "/s"}))
}

fn layout() -> (Layout, Value) {
    let layout = Layout { fragments: 2, width: 2, stripe_size_bytes: 65536 };
    (layout, json!({"fragments": 2, "width": 2, "stripe_size_bytes": 65536}))
}

fn owner() -> (Owner, Value) {
    (Owner { uid: 5, gid: 6 }, json!({"uid": 5, "gid": 6}))
}

/// Of a user's process.
fn target() -> (NamespaceTarget, Value) {
    let identity = Identity::User(User { uid: 5, groups: vec![6, 7] });
    let capability = Capability { identity, namespace: 2, expires_s: Some(8) };
    let secret = Key::from_hex(&"1f".repeat(32)).unwrap();
    let (layout, layout_text) = layout();
    let (node, node_text) = address();
    let target = NamespaceTarget {
        instance: InstanceId::literal("i1"),
        namespace: 2,
        credential: Some(Credential::of_parts(Some(capability), secret)),
        layout,
        home: FragmentIndex(1),
        nodes: vec![node],
        grace_ms: 9,
    };
    let identity = json!({"User": {"uid": 5, "groups": [6, 7]}});
    let text = json!({
        "instance": "i1", "namespace": 2,
        "credential": {
            "capability": {"identity": identity, "namespace": 2, "expires_s": 8}, "secret": "1f".repeat(32)
        },
        "layout": layout_text, "home": 1, "nodes": [node_text], "grace_ms": 9
    });
    (target, text)
}

fn error() -> (ApiError, Value) {
    let (message, advice) = ("m".to_owned(), "a".to_owned());
    let error = ApiError { code: ErrorCode::StageFailed, blame: Blame::Site, message, advice };
    (error, json!({"code": "stage_failed", "blame": "site", "message": "m", "advice": "a"}))
}

#[test]
fn words_are_what_they_always_were() {
    assert_words(&[(VolumeKind::Directory, "directory"), (VolumeKind::Image, "image")]);
    assert_words(&[
        (Missing::Refused, "refused"),
        (Missing::Made, "made"),
        (Missing::Restored, "restored"),
        (Missing::NamesAccepted, "names-accepted"),
    ]);
    assert_words(&[(Verify::BySize, "by_size"), (Verify::Full, "full"), (Verify::Sampled, "sampled")]);
    assert_words(&[(Verify::Off, "off")]);
    assert_words(&[(Side::Pfs, "pfs"), (Side::Buffer, "buffer")]);
    assert_words(&[(Blame::User, "user"), (Blame::Site, "site"), (Blame::Forebay, "forebay")]);
    assert_words(&[(Direction::In, "in"), (Direction::Out, "out")]);
    assert_words(&[
        (StageKind::File, "file"),
        (StageKind::Directory, "directory"),
        (StageKind::List, "list"),
        (StageKind::Any, "any"),
    ]);
    assert_words(&[
        (StageState::Pending, "pending"),
        (StageState::Deferred, "deferred"),
        (StageState::Active, "active"),
        (StageState::Complete, "complete"),
        (StageState::Failed, "failed"),
    ]);
    assert_words(&[(Coherence::Posix, "posix"), (Coherence::Commit, "commit")]);
    assert_words(&[(Drain::OnClose, "on-close")]);
    assert_words(&[
        (ErrorCode::PoolFull, "pool_full"),
        (ErrorCode::Unknown("of_a_newer".into()), "of_a_newer"),
    ]);
}

#[test]
fn words_of_a_database_are_what_they_always_were() {
    assert_words(&[
        (Phase::Registered, "registered"),
        (Phase::Ready, "ready"),
        (Phase::StagedIn, "staged_in"),
        (Phase::Mounted, "mounted"),
        (Phase::Unmounted, "unmounted"),
        (Phase::StagedOut, "staged_out"),
        (Phase::TornDown, "torn_down"),
    ]);
    assert_words(&[
        (Function::JobProcess, "job_process"),
        (Function::Setup, "setup"),
        (Function::DataIn, "data_in"),
        (Function::Paths, "paths"),
        (Function::PreRun, "pre_run"),
        (Function::PostRun, "post_run"),
        (Function::DataOut, "data_out"),
        (Function::Teardown, "teardown"),
        (Function::RealSize, "real_size"),
    ]);
    assert_words(&[(AccessMode::Striped, "striped"), (AccessMode::Private, "private")]);
    assert_words(&[(BufferRef::Own, ""), (BufferRef::Persistent(Token::literal("p")), "p")]);
}

#[test]
fn what_else_a_node_and_control_keep_has_the_text_that_it_always_had() {
    let (owner, owner_text) = owner();
    let drain = LocalDrain {
        from: "f".into(),
        to: "/pfs/t".into(),
        session: Token::literal("42"),
        when: Some(Drain::OnClose),
        slurm_job: Some(Token::literal("43")),
    };
    let drain_text =
        json!({"from": "f", "to": "/pfs/t", "session": "42", "when": "on-close", "slurm_job": "43"});
    let spec =
        LocalSpec { id: "42".into(), owner, user: "u".into(), capacity_bytes: Some(1), drain: Some(drain) };
    let text = json!({
        "id": "42", "owner": owner_text, "user": "u", "capacity_bytes": 1, "drain": drain_text
    });
    assert_kept(&spec, &text);
    assert_read_as::<LocalSpec>(
        &with(&text, &[("drain", None)]),
        &with(&text, &[("drain", Some(Value::Null))]),
    );
    let unmanaged = with(&drain_text, &[("slurm_job", None)]);
    assert_read_as::<LocalDrain>(&unmanaged, &with(&drain_text, &[("slurm_job", Some(Value::Null))]));
    let (error, error_text) = error();
    assert_kept(&(Function::DataIn, error), &json!(["data_in", error_text]));
    let script = Script {
        text: "#!".into(),
        path: "/j".into(),
        workdir: "/w".into(),
        job_name: "n".into(),
        user: "u".into(),
    };
    assert_kept(&script, &json!({"text": "#!", "path": "/j", "workdir": "/w", "job_name": "n", "user": "u"}));
}

#[test]
fn what_an_instance_was_asked_to_be_has_the_text_that_it_always_had_and_one_of_a_newer_is_an_error() {
    let behaviour = Behaviour {
        coherence: Coherence::Commit,
        redundancy: Redundancy::Mirror,
        drain: Some(Drain::OnClose),
    };
    assert_kept(&behaviour, &json!({"coherence": "commit", "redundancy": "mirror", "drain": "on-close"}));
    let none = json!({"coherence": "posix", "redundancy": "none", "drain": null});
    assert_kept(&Behaviour::default(), &none);
    assert_read_as::<Behaviour>(&json!({}), &none);
    from_text::<Behaviour>(br#"{"of": "a newer"}"#).unwrap_err();
}
