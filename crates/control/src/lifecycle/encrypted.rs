//! Buffers of which nothing is said in clear over a network. Their key says so, and goes to whoever is to know.
//!
//! **Invariant:** no node is given such a key that would not understand it, as far as it has said.

use model::NodeName;
use wire::control::ApiError;
use wire::data::hello::ENCRYPTED;
use wire::node::ENCRYPT;

use super::known;
use crate::site::Site;
use crate::state::instances::Instance;

/// The key of a buffer whose digits are these, in a pool that `encrypts`, or does not. One in a pool that is configured
/// no more stays as the `former` key was.
pub(crate) fn key(encrypts: Option<bool>, former: &str, digits: &str) -> String {
    let is = encrypts.unwrap_or_else(|| former.starts_with(ENCRYPTED));
    if is { format!("{ENCRYPTED}{digits}") } else { digits.to_owned() }
}

/// Refuses nodes of releases that do not know encrypted connections, where the buffer's are.
///
/// # Errors
/// `node_too_old`.
pub(crate) fn check(site: &impl Site, instance: &Instance, nodes: &[NodeName]) -> Result<(), ApiError> {
    let is_encrypted = [&instance.key, &instance.other_key].iter().any(|key| key.starts_with(ENCRYPTED));
    if is_encrypted { known::check(site, nodes, (ENCRYPT, &instance.pool)) } else { Ok(()) }
}
