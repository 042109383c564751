//! The specification of a mount, and what it and a stage need to use a namespace.

use std::path::PathBuf;

use model::directive::MountBehaviour;
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId};
use serde::{Deserialize, Serialize};
use wire::data::credential::{Capability, Credential, Identity, User};
use wire::data::hello::Key;
use wire::node::{MountSpec, NamespaceTarget, StorageAddress};

use crate::OnDisk;

form! {
    struct MountForm of MountSpec {
        id: String,
        mountpoint: PathBuf,
        target: NamespaceTarget,
        exclusive: bool,
        #[serde(flatten)]
        behaviour: MountBehaviour,
    }
}

form! {
    struct TargetForm of NamespaceTarget {
        instance: InstanceId,
        namespace: u32,
        #[serde(default)]
        credential: Option<Credential>,
        layout: Layout,
        home: FragmentIndex,
        nodes: Vec<StorageAddress>,
        grace_ms: u64,
    }
}

/// Of a [`Credential`], whose fields are its own.
#[derive(Serialize, Deserialize)]
pub struct CredentialForm {
    #[serde(default)]
    capability: Option<CapabilityForm>,
    secret: Digits,
}

impl OnDisk for Credential {
    type Form = CredentialForm;

    fn to_form(&self) -> CredentialForm {
        let (capability, secret) = self.parts();
        CredentialForm { capability: capability.map(OnDisk::to_form), secret: Digits(secret.clone()) }
    }

    fn from_form(CredentialForm { capability, secret }: CredentialForm) -> Credential {
        Credential::of_parts(OnDisk::from_form(capability), secret.0)
    }
}

/// A key, as 64 hexadecimal digits.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Digits(Key);

impl TryFrom<String> for Digits {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Digits, &'static str> {
        Key::from_hex(&text).map(Digits).ok_or("a key has 64 hexadecimal digits")
    }
}

impl From<Digits> for String {
    fn from(Digits(key): Digits) -> String {
        key.into()
    }
}

form! {
    struct CapabilityForm of Capability {
        identity: Identity,
        namespace: u32,
        expires_s: Option<u64>,
    }
}

/// Of an [`Identity`], one of which is no word alone.
#[derive(Serialize, Deserialize)]
pub enum IdentityForm {
    Member,
    Kernel,
    User(UserForm),
    SquashingKernel,
}

impl OnDisk for Identity {
    type Form = IdentityForm;

    fn to_form(&self) -> IdentityForm {
        match self {
            Identity::Member => IdentityForm::Member,
            Identity::Kernel => IdentityForm::Kernel,
            Identity::User(user) => IdentityForm::User(user.to_form()),
            Identity::SquashingKernel => IdentityForm::SquashingKernel,
        }
    }

    fn from_form(form: IdentityForm) -> Identity {
        match form {
            IdentityForm::Member => Identity::Member,
            IdentityForm::Kernel => Identity::Kernel,
            IdentityForm::User(user) => Identity::User(User::from_form(user)),
            IdentityForm::SquashingKernel => Identity::SquashingKernel,
        }
    }
}

form! {
    struct UserForm of User {
        uid: u32,
        groups: Vec<u32>,
    }
}
