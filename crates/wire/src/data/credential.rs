//! Who a client of the data path is, and the proof of it.
//!
//! Whoever has an instance's key is one of its storage nodes and may do everything. From the key, credentials for
//! others are derived, so that a compute node, or a process that works for a user, never has the key itself:
//!
//! ```text
//! secret := HMAC-SHA256(instance key, "forebay credential" capability)
//! grant  := HMAC-SHA256(instance key, "forebay grant" uid session inode rights)[..16]
//! ```
//!
//! A grant is what the home shard gives with the answer to an open: the other nodes, which know objects and no
//! permissions, let a user's client touch an object only where it shows one.
//!
//! **Invariant:** nothing that is sent lets its reader make a credential or grant for anybody else, or for more.

use std::time::SystemTime;

use hmac::Mac;
use model::{Ino, SessionId};
use serde::{Deserialize, Serialize};

use super::connection::encode;
use super::key::Key;

/// Groups that a capability names at most: with more it would not fit the handshake. The first count.
pub const GROUPS_MAX: usize = 1024;

/// The longest encoded capability, bytes: [`GROUPS_MAX`] groups, and the rest.
pub const CAPABILITY_BYTES_MAX: usize = GROUPS_MAX * 5 + 64;

/// A user, as POSIX has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// All groups, the main one first.
    pub groups: Vec<u32>,
}

/// Whom root is taken for where it is squashed, as with NFS: user and group.
pub const NOBODY: u32 = 65_534;

impl User {
    /// Who has no rights but everybody's.
    pub fn nobody() -> User {
        User { uid: NOBODY, groups: vec![NOBODY] }
    }

    /// Whether the user is in the group.
    pub fn is_in(&self, gid: u32) -> bool {
        self.groups.contains(&gid)
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// A storage node of the instance.
    Member,
    /// A mount: the kernel of its node has checked permissions before it asks.
    Kernel,
    /// A process that works for a user: the home shard checks permissions.
    User(User),
    /// A mount in which root has the rights of nobody, in a pool with `root_squash`. A program that does not know this
    /// understands no such credential, and refuses it.
    SquashingKernel,
}

/// What a client may do, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Who it is.
    pub identity: Identity,
    /// The one namespace of the instance that it may use.
    pub namespace: u32,
    /// Connections that begin later are refused, seconds since 1970; `None`: as long as the instance lives.
    pub expires_s: Option<u64>,
}

/// How long a worker of a stage may begin connections, seconds: large stages run for days.
const STAGE_S: u64 = 30 * 24 * 3600;

impl Capability {
    /// What a worker of a stage may do that begins today.
    pub fn of_stage(user: User, namespace: u32) -> Capability {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Capability { identity: Identity::User(user), namespace, expires_s: Some(now.as_secs() + STAGE_S) }
    }

    /// Reads what a client sent.
    pub(super) fn decode(bytes: &[u8]) -> Option<Capability> {
        postcard::from_bytes(bytes).ok()
    }

    /// Whether it is over, seconds since 1970.
    pub(super) fn is_over(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|end| end < now_s)
    }
}

/// What a client proves in the handshake who it is by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// `None`: that of a storage node, whose secret is the instance's key.
    #[serde(default)]
    capability: Option<Capability>,
    secret: Key,
}

impl Credential {
    /// A storage node's: the instance's key itself.
    pub fn member(key: Key) -> Credential {
        Credential { capability: None, secret: key }
    }

    /// One for somebody else, from the instance's key.
    pub fn derive(key: &Key, mut capability: Capability) -> Credential {
        if let Identity::User(user) = &mut capability.identity {
            user.groups.truncate(GROUPS_MAX);
        }
        let secret = secret_of(key, &encode(&capability));
        Credential { capability: Some(capability), secret }
    }

    /// What it is made of, for who keeps it.
    pub fn parts(&self) -> (Option<&Capability>, &Key) {
        (self.capability.as_ref(), &self.secret)
    }

    /// The one that was made of these.
    pub fn of_parts(capability: Option<Capability>, secret: Key) -> Credential {
        Credential { capability, secret }
    }

    /// Whether the home shard checks permissions of whoever has it, and other nodes want grants.
    pub fn needs_grants(&self) -> bool {
        matches!(&self.capability, Some(Capability { identity: Identity::User(_), .. }))
    }

    /// Whether root of the mount that has it has the rights of nobody.
    pub fn squashes_root(&self) -> bool {
        matches!(&self.capability, Some(Capability { identity: Identity::SquashingKernel, .. }))
    }

    /// Whether what its holder says over a network is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.secret.is_encrypted()
    }

    /// What is sent of it: the encoded capability, empty for a storage node.
    pub(super) fn claim(&self) -> Vec<u8> {
        self.capability.as_ref().map(encode).unwrap_or_default()
    }

    pub(super) fn secret(&self) -> &Key {
        &self.secret
    }

    /// The same for a connection that the node has handed over.
    pub(super) fn handed_over(&self) -> Credential {
        Credential { secret: self.secret.handed_over(), ..self.clone() }
    }

    /// The same for a connection that no network carries.
    pub(super) fn in_clear(self) -> Credential {
        Credential { secret: self.secret.in_clear(), ..self }
    }
}

/// The secret that goes with an encoded capability; an empty one is that of a storage node.
pub(super) fn secret_of(key: &Key, capability: &[u8]) -> Key {
    if capability.is_empty() {
        return key.clone();
    }
    let mut mac = key.hmac();
    mac.update(b"forebay credential");
    mac.update(capability);
    key.derived(mac.finalize().into_bytes().into())
}

/// What a user's client may do with the objects of a file that it has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// It may read.
    pub read: bool,
    /// It may write.
    pub write: bool,
    proof: [u8; 16],
}

/// Whom a grant is for: nobody else has a use for it.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// The user.
    pub uid: u32,
    /// The client's session.
    pub session: SessionId,
}

impl Grant {
    /// A grant for the objects of an inode.
    pub fn give(key: &Key, holder: Holder, ino: Ino, read: bool, write: bool) -> Grant {
        let mut mac = key.hmac();
        mac.update(b"forebay grant");
        mac.update(&holder.uid.to_le_bytes());
        mac.update(holder.session.as_bytes());
        mac.update(&ino.to_le_bytes());
        mac.update(&[u8::from(read), u8::from(write)]);
        let whole = mac.finalize().into_bytes();
        Grant { read, write, proof: whole[..16].try_into().expect("SHA-256 has 32 bytes") }
    }

    /// Whether it is one that [`Grant::give`] made.
    pub fn is_for(&self, key: &Key, holder: Holder, ino: Ino) -> bool {
        let given = Grant::give(key, holder, ino, self.read, self.write);
        // All bytes are compared, whichever differs: how long it takes tells nothing of the proof.
        given.proof.iter().zip(self.proof).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::from_bytes([byte; 32])
    }

    fn user(uid: u32) -> Capability {
        let identity = Identity::User(User { uid, groups: vec![uid, 100] });
        Capability { identity, namespace: 0, expires_s: Some(50) }
    }

    #[test]
    fn a_credential_of_another_instance_user_or_end_has_another_secret() {
        let secret = |key: &Key, capability: Capability| Credential::derive(key, capability).secret;
        let one = secret(&key(1), user(7));
        assert_eq!(one, secret(&key(1), user(7)));
        assert_ne!(one, secret(&key(2), user(7)));
        assert_ne!(one, secret(&key(1), user(8)));
        assert_ne!(one, secret(&key(1), Capability { expires_s: None, ..user(7) }));
        assert_ne!(one, key(1), "the instance's key stays where it is");
    }

    #[test]
    fn a_grant_is_for_one_session_of_one_user_one_inode_and_these_rights() {
        let (session, other) = (SessionId([3; 16]), SessionId([4; 16]));
        let holder = Holder { uid: 7, session };
        let grant = Grant::give(&key(1), holder, Ino(9), true, false);
        assert!(grant.is_for(&key(1), holder, Ino(9)));
        assert!(!grant.is_for(&key(2), holder, Ino(9)));
        assert!(!grant.is_for(&key(1), Holder { uid: 8, ..holder }, Ino(9)));
        assert!(!grant.is_for(&key(1), Holder { session: other, ..holder }, Ino(9)));
        assert!(!grant.is_for(&key(1), holder, Ino(10)));
        assert!(!Grant { write: true, ..grant }.is_for(&key(1), holder, Ino(9)));
    }

    #[test]
    fn a_credential_keeps_its_groups_as_far_as_they_fit() {
        let groups = (0..u32::try_from(GROUPS_MAX).unwrap() + 9).map(|n| u32::MAX - n).collect();
        let identity = Identity::User(User { uid: u32::MAX, groups });
        let capability = Capability { identity, namespace: u32::MAX, expires_s: Some(u64::MAX) };
        let credential = Credential::derive(&key(1), capability);
        assert!(credential.claim().len() <= CAPABILITY_BYTES_MAX);
        let kept = Capability::decode(&credential.claim()).unwrap();
        assert_eq!(Some(&kept), credential.capability.as_ref());
    }
}
