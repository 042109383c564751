//! Tickets: what control gives with a stage to the node that coordinates it, so that the nodes of the buffer's other
//! fragments copy for it, with its owner's rights on the PFS.
//!
//! ```text
//! ticket    := expires_s:u64 signature[64], little-endian, in hexadecimal
//! signature := Ed25519(stage key of the instance, "forebay stage" expires_s and what the ticket is for)
//! ```
//!
//! **Invariant:** the stage key never leaves control. Nodes have its public half: they can check a ticket, and make
//! none.

use std::time::SystemTime;

use ed25519_dalek::{Signature, SigningKey, VerifyingKey};

use crate::data::connection::encode;
use crate::data::hello::Key;
use crate::hex;
use crate::node::StageSpec;

/// How long a ticket is good, seconds: large stages run for days. As long as the credential that goes with it.
const GOOD_FOR_S: u64 = 30 * 24 * 3600;

/// Why a stage is not helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// There is none, it was changed, or it is another stage's.
    #[error("the caller cannot show that control gave it this stage")]
    NotOfThis,
    /// It was good once.
    #[error("the stage's ticket has expired after 30 days; cancel the stage and retry it")]
    Expired,
}

/// The public half of a stage key, in hexadecimal: for the nodes of the instance.
pub fn verifier(stage_key: &Key) -> String {
    hex::encode(SigningKey::from_bytes(stage_key.bytes()).verifying_key().as_bytes())
}

/// The ticket for a stage that begins today.
pub fn issue(stage_key: &Key, stage: &StageSpec) -> String {
    until(stage_key, stage, now_s() + GOOD_FOR_S)
}

fn until(stage_key: &Key, stage: &StageSpec, expires_s: u64) -> String {
    use ed25519_dalek::Signer;
    let signature = SigningKey::from_bytes(stage_key.bytes()).sign(&statement(stage, expires_s));
    hex::encode(&[&expires_s.to_le_bytes()[..], &signature.to_bytes()].concat())
}

/// Whether control gave this stage, by the public half of its key.
///
/// # Errors
/// See [`TicketError`].
pub fn check(verifier: &str, stage: &StageSpec) -> Result<(), TicketError> {
    let ticket = hex::decode::<72>(&stage.ticket).ok_or(TicketError::NotOfThis)?;
    let (expires_s, signature) = ticket.split_first_chunk::<8>().expect("it has 72 bytes");
    let expires_s = u64::from_le_bytes(*expires_s);
    let signature = Signature::from_slice(signature).map_err(|_| TicketError::NotOfThis)?;
    let key = hex::decode::<32>(verifier).and_then(|key| VerifyingKey::from_bytes(&key).ok());
    let key = key.ok_or(TicketError::NotOfThis)?;
    key.verify_strict(&statement(stage, expires_s), &signature).map_err(|_| TicketError::NotOfThis)?;
    if now_s() < expires_s { Ok(()) } else { Err(TicketError::Expired) }
}

/// What is signed: whose rights are taken on, for which buffer, and what is copied where.
fn statement(stage: &StageSpec, expires_s: u64) -> Vec<u8> {
    let (target, owner) = (&stage.target, &stage.owner);
    let pairs: Vec<_> = stage.pairs.iter().map(|pair| (&pair.buffer, bytes(&pair.pfs))).collect();
    encode(&(
        ("forebay stage", expires_s, &stage.id),
        (&target.instance, target.namespace, owner.uid, owner.gid),
        (stage.direction, stage.kind, bytes(&stage.pfs_path), &stage.buffer_path, pairs),
    ))
}

fn bytes(path: &std::path::Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use model::phase::{Direction, StageKind};
    use model::stripe::Layout;

    use super::*;
    use crate::node::{NamespaceTarget, StagePolicy};
    use crate::owner::Owner;
    use crate::stages::StagePair;
    use model::{FragmentIndex, InstanceId};

    fn stage() -> StageSpec {
        let target = NamespaceTarget {
            instance: InstanceId::literal("i1"),
            namespace: 0,
            credential: None,
            layout: Layout::striped(2),
            home: FragmentIndex(0),
            nodes: Vec::new(),
            grace_ms: 0,
        };
        StageSpec {
            id: "1.0".into(),
            direction: Direction::Out,
            kind: StageKind::Directory,
            pfs_path: PathBuf::new(),
            buffer_path: String::new(),
            buffer_name: String::new(),
            source: String::new(),
            destination: String::new(),
            target,
            owner: Owner { uid: 1000, gid: 100 },
            pairs: Vec::new(),
            pfs_mounts: Vec::new(),
            source_ino: None,
            policy: StagePolicy::default(),
            ticket: String::new(),
        }
    }

    #[test]
    fn a_ticket_is_good_for_its_stage_buffer_owner_and_paths_alone() {
        let [key, other] = ["ab", "cd"].map(|digits| Key::from_hex(&digits.repeat(32)).unwrap());
        let good = StageSpec { ticket: issue(&key, &stage()), ..stage() };
        let [own, foreign] = [&key, &other].map(verifier);
        assert_eq!(check(&own, &good), Ok(()));
        assert_eq!(check(&foreign, &good), Err(TicketError::NotOfThis));
        assert_eq!(check("", &good), Err(TicketError::NotOfThis), "no key at all");
        assert_eq!(check(&own, &stage()), Err(TicketError::NotOfThis), "no ticket at all");
        let other_buffer = NamespaceTarget { instance: InstanceId::literal("i2"), ..good.target.clone() };
        let other_namespace = NamespaceTarget { namespace: 1, ..good.target.clone() };
        let pair = StagePair { buffer: "a".into(), pfs: "/a".into(), size_hint: None, ino: None };
        for wrong in [
            StageSpec { id: "2.0".into(), ..good.clone() },
            StageSpec { owner: Owner { uid: 0, gid: 100 }, ..good.clone() },
            StageSpec { owner: Owner { uid: 1000, gid: 0 }, ..good.clone() },
            StageSpec { target: other_buffer, ..good.clone() },
            StageSpec { target: other_namespace, ..good.clone() },
            StageSpec { pfs_path: "/etc".into(), ..good.clone() },
            StageSpec { buffer_path: "other".into(), ..good.clone() },
            StageSpec { direction: Direction::In, ..good.clone() },
            StageSpec { pairs: vec![pair], ..good.clone() },
        ] {
            assert_eq!(check(&own, &wrong), Err(TicketError::NotOfThis), "{wrong:?}");
        }
        let later = u64::MAX.to_le_bytes();
        let longer = crate::hex::encode(&later) + &good.ticket[16..];
        assert_eq!(check(&own, &StageSpec { ticket: longer, ..good }), Err(TicketError::NotOfThis));
    }

    #[test]
    fn a_ticket_expires() {
        let key = Key::from_hex(&"ab".repeat(32)).unwrap();
        for (expires_s, expected) in [(now_s() + 60, Ok(())), (now_s(), Err(TicketError::Expired))] {
            let spec = StageSpec { ticket: until(&key, &stage(), expires_s), ..stage() };
            assert_eq!(check(&verifier(&key), &spec), expected);
        }
    }
}
