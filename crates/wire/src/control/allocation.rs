//! A buffer over the nodes of an allocation: what its services are told by the command that starts them, and what they
//! say to it. Each is a line of JSON: on a service's standard input, and on its standard output.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use model::NodeName;
use serde::{Deserialize, Serialize};

use super::RegisterNode;
use crate::data::hello::Key;

/// What each service is told. It ends when its standard input ends, and leaves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// What they know each other by. Whoever has it may tell every node what to do.
    pub key: Key,
    /// Where every host mounts namespaces. Beside it are the services' own folders.
    pub folder: PathBuf,
    /// The hosts.
    pub hosts: Vec<AllocatedHost>,
}

/// A host of the allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedHost {
    /// Its name, which is its node's.
    pub name: NodeName,
    /// Where the others reach it.
    pub address: IpAddr,
}

/// What is said of a node on its own host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attended {
    /// It serves; also when it was started again.
    Ready(RegisterNode),
    /// It does not.
    Failed {
        /// Which.
        node: NodeName,
        /// Why.
        why: String,
    },
    /// Its attendant ends.
    Cleared {
        /// Which.
        node: NodeName,
        /// What it could not take away.
        left: Option<String>,
    },
}

impl Allocation {
    /// The folder of the node `name`: hosts may share the folder that it is in.
    pub fn node_folder(&self, name: &NodeName) -> PathBuf {
        self.beside(&format!(".{name}"))
    }

    /// The folder of control.
    pub fn control_folder(&self) -> PathBuf {
        self.beside("-control")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.folder.clone().into_os_string();
        path.push(suffix);
        Path::new(&path).into()
    }
}
