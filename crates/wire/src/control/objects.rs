//! What is allocated and mounted, as flat lists of numbered objects: what `dwstat` shows and what Slurm reads.
//!
//! A number is given once for each kind of object, from 1.

use std::path::PathBuf;

use model::phase::AccessMode;
use model::{NodeName, Token};
use serde::{Deserialize, Serialize};

use super::nodes::NodeStatus;
use super::status::PoolStatus;

/// Everything, oldest first in every list. Somebody who is neither operator nor workload manager gets the objects of
/// his own sessions and of shared persistent buffers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Objects {
    /// Pools, the default first.
    pub pools: Vec<PoolStatus>,
    /// Sessions that are not torn down.
    pub sessions: Vec<SessionObject>,
    /// Allocations.
    pub instances: Vec<InstanceObject>,
    /// The namespaces of instances.
    pub configurations: Vec<ConfigurationObject>,
    /// Which session uses which configuration.
    pub registrations: Vec<RegistrationObject>,
    /// Configurations that are mounted for a session.
    pub activations: Vec<ActivationObject>,
    /// The parts of instances on nodes.
    pub fragments: Vec<FragmentObject>,
    /// Nodes.
    pub nodes: Vec<NodeStatus>,
}

/// How an object is. Its `Display` is the five characters of `dwstat`: `CA---`, `D--T-`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectState {
    /// Whether it is to be there (`C`) or to go (`D`).
    pub goal: Goal,
    /// It is as it is to be (`A`).
    pub actualized: bool,
    /// A part of it is lost (`F`).
    pub fuse_blown: bool,
    /// Something works on it (`T`).
    pub transitioning: bool,
    /// Its parts are not all in the same state (`M`).
    pub mixed: bool,
}

/// What is wanted of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// It is to be there.
    Create,
    /// It is to go.
    Destroy,
}

impl ObjectState {
    /// There, and nothing to be said about it.
    pub const WELL: ObjectState = ObjectState {
        goal: Goal::Create,
        actualized: true,
        fuse_blown: false,
        transitioning: false,
        mixed: false,
    };
}

impl std::fmt::Display for ObjectState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flag = |set, letter| if set { letter } else { '-' };
        let goal = match self.goal {
            Goal::Create => 'C',
            Goal::Destroy => 'D',
        };
        let flags = [
            goal,
            flag(self.actualized, 'A'),
            flag(self.fuse_blown, 'F'),
            flag(self.transitioning, 'T'),
            flag(self.mixed, 'M'),
        ];
        f.pad(&flags.iter().collect::<String>())
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionObject {
    /// Its number.
    pub id: u64,
    /// How it is.
    pub state: ObjectState,
    /// Job id or name.
    pub token: Token,
    /// Who made it, as `SLURM`.
    pub creator: String,
    /// The owner's user id.
    pub owner: u32,
    /// Seconds since 1970.
    pub created_unix: u64,
    /// The compute nodes of its job, once known.
    pub hosts: Vec<NodeName>,
    /// Quarantined, with data that is still owed: a workload manager must not be told of it, as it has forgotten it.
    pub quarantined: bool,
    /// Whether it is a persistent buffer.
    pub persistent: bool,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceObject {
    /// Its number: 3 for instance `i3`.
    pub id: u64,
    /// How it is.
    pub state: ObjectState,
    /// The session that it belongs to.
    pub session: u64,
    /// Bytes allocated.
    pub capacity_bytes: u64,
    /// Bytes in use, as its nodes said last.
    pub used_bytes: u64,
    /// How many storage nodes it is on.
    pub nodes: u32,
    /// Seconds since 1970.
    pub created_unix: u64,
    /// Whether every fragment is served; `None`: some of their nodes have not said.
    #[serde(default)]
    pub intact: Option<bool>,
    /// Its label: the session's token.
    pub label: String,
    /// Whether other users' jobs may use it.
    pub public: bool,
    /// How many configurations it has.
    pub configurations: u32,
    /// Its pool.
    pub pool: String,
}

/// One namespace of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationObject {
    /// Its number.
    pub id: u64,
    /// How it is.
    pub state: ObjectState,
    /// Its instance.
    pub instance: u64,
    /// `scratch`.
    pub kind: String,
    /// How it is shared.
    pub access_mode: AccessMode,
    /// How many activations it has.
    pub activations: u32,
}

/// A session's use of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrationObject {
    /// Its number.
    pub id: u64,
    /// How it is.
    pub state: ObjectState,
    /// The session.
    pub session: u64,
    /// The configuration.
    pub configuration: u64,
    /// Whether teardown waits for stage-outs.
    pub wait: bool,
}

/// A configuration that is mounted for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivationObject {
    /// Its number.
    pub id: u64,
    /// How it is.
    pub state: ObjectState,
    /// The session.
    pub session: u64,
    /// The configuration.
    pub configuration: u64,
    /// The compute node.
    pub node: NodeName,
    /// Where; no trailing slash.
    pub mountpoint: PathBuf,
}

/// A part of an instance on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentObject {
    /// Its number.
    pub id: u64,
    /// How it is.
    pub state: ObjectState,
    /// Its instance.
    pub instance: u64,
    /// Bytes allocated.
    pub capacity_bytes: u64,
    /// Bytes in a grain of its pool.
    pub granularity_bytes: u64,
    /// The storage node.
    pub node: NodeName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_five_characters() {
        assert_eq!(ObjectState::WELL.to_string(), "CA---");
        let going =
            ObjectState { goal: Goal::Destroy, actualized: false, transitioning: true, ..ObjectState::WELL };
        assert_eq!(format!("{going:>6}"), " D--T-");
    }
}
