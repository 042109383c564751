//! The specification of a mount.

use model::directive::Behaviour;
use model::phase::Coherence;
use serde_json::json;
use wire::data::credential::{Capability, Credential, Identity};
use wire::data::hello::Key;
use wire::node::MountSpec;

use super::{assert_kept, assert_read_as, target, with};
use crate::from_text;

#[test]
fn the_specification_of_a_mount_has_the_text_that_it_always_had() {
    let (target, target_text) = target();
    let spec = MountSpec {
        id: "3-striped".into(),
        mountpoint: "/m".into(),
        target,
        exclusive: true,
        behaviour: Behaviour { coherence: Coherence::Commit, ..Behaviour::default() }.of_mounts(),
    };
    let text = json!({
        "id": "3-striped", "mountpoint": "/m", "target": target_text, "exclusive": true, "coherence": "commit"
    });
    assert_kept(&spec, &text);
    let first = with(&text, &[("coherence", None)]);
    assert_read_as::<MountSpec>(&first, &with(&text, &[("coherence", Some(json!("posix")))]));
}

#[test]
fn a_credential_has_the_text_that_it_always_had() {
    let secret = Key::from_hex(&"1f".repeat(32)).unwrap();
    let text = json!({"capability": null, "secret": "1f".repeat(32)});
    assert_kept(&Credential::member(secret.clone()), &text);
    assert_read_as::<Credential>(&with(&text, &[("capability", None)]), &text);
    let words = [
        (Identity::Member, "Member"),
        (Identity::Kernel, "Kernel"),
        (Identity::SquashingKernel, "SquashingKernel"),
    ];
    for (identity, word) in words {
        let capability = Capability { identity, namespace: 2, expires_s: None };
        let credential = Credential::of_parts(Some(capability), secret.clone());
        let capability = json!({"identity": word, "namespace": 2, "expires_s": null});
        assert_kept(&credential, &with(&text, &[("capability", Some(capability))]));
    }
    let damaged = with(&text, &[("secret", Some(json!("1f")))]);
    let refused = from_text::<Credential>(damaged.to_string().as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("64 hexadecimal digits"), "{refused}");
}
