//! The specification of a fragment as it stands on disk: what control sends may change, what is here stays readable.
//!
//! ```text
//! record := {"instance", "index", "capacity_bytes", "volume", "key", "stage_verifier", "peers": [peer], "namespaces":
//!            [namespace], "grace_ms", "mirrored", "missing", "witnessed", "term", "other_key",
//!            "key_step"}
//! peer := {"node", "tcp", "unix"}
//! namespace := {"id", "layout": {"fragments", "width", "stripe_size_bytes"}, "home", "owner": {"uid", "gid"}, "mode"}
//! ```
//!
//! **Invariant:** what is not in a record is what there was before there was such a key.

use std::path::PathBuf;

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use serde::{Deserialize, Serialize};
use wire::control::Owner;
use wire::node::{FragmentSpec, GRACE_MS, Missing, NamespaceSpec, StorageAddress, VolumeKind};

/// All of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    instance: InstanceId,
    index: FragmentIndex,
    capacity_bytes: u64,
    volume: Volume,
    key: String,
    #[serde(default)]
    stage_verifier: String,
    peers: Vec<Peer>,
    namespaces: Vec<NamespaceRecord>,
    #[serde(default = "first_grace_ms")]
    grace_ms: u64,
    #[serde(default)]
    mirrored: bool,
    #[serde(default)]
    missing: Absent,
    #[serde(default)]
    witnessed: bool,
    #[serde(default)]
    term: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    other_key: String,
    #[serde(default, skip_serializing_if = "is_first")]
    key_step: u64,
}

/// Before the first change of its keys a record is as older releases wrote it.
fn is_first(key_step: &u64) -> bool {
    *key_step == 0
}

fn first_grace_ms() -> u64 {
    GRACE_MS
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Volume {
    Directory,
    Image,
}

/// What is done where there is nothing.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Absent {
    #[default]
    Refused,
    Made,
    Restored,
    NamesRestored,
    NamesAccepted,
}

#[derive(Serialize, Deserialize)]
struct Peer {
    node: NodeName,
    tcp: String,
    unix: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct NamespaceRecord {
    id: u32,
    layout: Spread,
    home: FragmentIndex,
    owner: Identity,
    mode: u32,
}

/// How files are spread.
#[derive(Serialize, Deserialize)]
struct Spread {
    fragments: u32,
    width: u32,
    stripe_size_bytes: u32,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    uid: u32,
    gid: u32,
}

/// Both ways of a word that is one of a few.
macro_rules! words {
    ($here:ident = $there:ident: $($word:ident)*) => {
        impl From<$there> for $here {
            fn from(word: $there) -> $here {
                match word {
                    $($there::$word => $here::$word,)*
                }
            }
        }
        impl From<$here> for $there {
            fn from(word: $here) -> $there {
                match word {
                    $($here::$word => $there::$word,)*
                }
            }
        }
    };
}

words!(Volume = VolumeKind: Directory Image);
words!(Absent = Missing: Refused Made Restored NamesRestored NamesAccepted);

/// Both ways of what has the same fields; those in brackets are converted, and those in braces lists of such.
macro_rules! fields {
    ($here:ident = $there:ident: $($field:ident)* [$($other:ident)*] {$($list:ident)*}) => {
        impl From<$there> for $here {
            fn from($there { $($field,)* $($other,)* $($list,)* }: $there) -> $here {
                $(let $list = $list.into_iter().map(Into::into).collect();)*
                $here { $($field,)* $($other: $other.into(),)* $($list,)* }
            }
        }
        impl From<$here> for $there {
            fn from($here { $($field,)* $($other,)* $($list,)* }: $here) -> $there {
                $(let $list = $list.into_iter().map(Into::into).collect();)*
                $there { $($field,)* $($other: $other.into(),)* $($list,)* }
            }
        }
    };
}

fields!(Identity = Owner: uid gid [] {});
fields!(Spread = Layout: fragments width stripe_size_bytes [] {});
fields!(NamespaceRecord = NamespaceSpec: id home mode [layout owner] {});
fields!(Peer = StorageAddress: node tcp unix [] {});
fields!(Record = FragmentSpec: instance index capacity_bytes key other_key key_step stage_verifier grace_ms
    mirrored witnessed term [volume missing] {peers namespaces});
