//! What a node of a site in memory has of a fragment that it is asked for again.

use daemon::error::site;
use wire::control::{ApiError, ErrorCode};
use wire::node::FragmentSpec;

/// As it is then; `known` is what it has.
///
/// # Errors
/// It is another's, or control has former keys.
pub(super) fn taken(known: &FragmentSpec, spec: &FragmentSpec) -> Result<FragmentSpec, ApiError> {
    if !known.is_of_instance_of(spec) {
        return Err(site(ErrorCode::FragmentOfAnother, "it is another's", "look at it"));
    }
    let is_later = spec.key_step > known.key_step;
    if !is_later && !known.is_in_touch_with(spec) {
        return Err(site(ErrorCode::KeyBehind, "control has former keys", "put a newer database back"));
    }
    // Others may have taken the places of peers, and its own.
    let same = FragmentSpec {
        namespaces: spec.namespaces.clone(),
        peers: spec.peers.clone(),
        missing: spec.missing,
        key: spec.key.clone(),
        other_key: spec.other_key.clone(),
        key_step: spec.key_step,
        ..known.clone()
    };
    assert_eq!(&same, spec, "a repeated request is the same request, with more namespaces perhaps");
    assert!(known.namespaces.iter().all(|namespace| spec.namespaces.contains(namespace)));
    let FragmentSpec { key, other_key, key_step, .. } = if is_later { spec } else { known }.clone();
    Ok(FragmentSpec { key, other_key, key_step, ..spec.clone() })
}
