//! Room: what can be allocated from, what is taken of it, and what is wished for. How that is placed is each kind's to
//! say.

use daemon::error::user;
use model::NodeName;
use model::phase::{AccessMode, Redundancy};
use model::size::{self, display};
pub(crate) use wire::control::one_machine::POOL as LOCAL_POOL;
use wire::control::{ApiError, ErrorCode, VolumeKind, one_machine};

use crate::site::{DiskSpace, NodeView, PoolKind, PoolSetting, Site};
use crate::state::instances::Instance;

/// Bytes in a grain of it.
pub(crate) const LOCAL_GRANULARITY_BYTES: u64 = 1 << 20;

/// What can be allocated from, as it is known at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The pools, the default first.
    pub pools: Vec<PoolSetting>,
    /// The nodes as they were seen last.
    pub views: Vec<NodeView>,
    /// The disk under every node of one machine; nothing on a cluster, whose nodes have flash of their own.
    pub disk: DiskSpace,
}

/// What an instance takes.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// The pool.
    pub pool: String,
    /// Bytes allocated on all fragments, and for their mirrors.
    pub capacity_bytes: u64,
    /// Bytes that the disk already counts.
    pub on_disk_bytes: u64,
    /// The node of each fragment.
    pub nodes: Vec<NodeName>,
}

/// Where an instance goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The pool.
    pub pool: String,
    /// Bytes in a grain.
    pub granularity_bytes: u64,
    /// Bytes on each fragment.
    pub fragment_bytes: u64,
    /// Bytes on all fragments.
    pub capacity_bytes: u64,
    /// The node of each fragment, in order; empty: the job's own nodes, once they are known.
    pub nodes: Vec<NodeName>,
    /// What it is.
    pub kind: PoolKind,
}

/// What is asked of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    /// Bytes.
    pub requested_bytes: u64,
    /// `None`: the default pool.
    pub pool: Option<&'a str>,
    /// Over how many nodes; `None`: as the pool does it.
    pub fragments: Option<u32>,
    /// Its namespaces; none: they are not known.
    pub access_modes: &'a [AccessMode],
    /// On how many nodes each byte is to be.
    pub redundancy: Redundancy,
}

impl Wish<'_> {
    /// How often each byte takes room.
    pub(super) fn copies(&self) -> u64 {
        if self.redundancy == Redundancy::Mirror { 2 } else { 1 }
    }

    /// Over how many nodes it goes at least.
    ///
    /// # Errors
    /// Fewer are wished for.
    pub(super) fn nodes_min(&self) -> Result<u64, ApiError> {
        match self.fragments {
            Some(wished) if u64::from(wished) < self.copies() => Err(too_few_nodes()),
            _ => Ok(self.copies()),
        }
    }
}

pub(super) fn too_few_nodes() -> ApiError {
    let message = "redundancy=mirror keeps each byte on two nodes, and the buffer would have one";
    user(
        ErrorCode::MirrorNeedsNodes,
        message,
        "ask for two storage nodes or more (`--nodes 2` on one machine), or for no mirror",
    )
}

impl Share {
    /// The share of `instance`, which holds `used_bytes`.
    pub(crate) fn of(instance: &Instance, used_bytes: u64) -> Share {
        let on_disk_bytes = match instance.volume {
            VolumeKind::Directory if instance.is_mirrored() => {
                used_bytes.saturating_mul(2).min(instance.allocated_bytes())
            }
            VolumeKind::Directory => used_bytes.min(instance.capacity_bytes),
            // Preallocated whole.
            VolumeKind::Image => instance.allocated_bytes(),
        };
        Share {
            pool: instance.pool.clone(),
            capacity_bytes: instance.allocated_bytes(),
            on_disk_bytes,
            nodes: instance.nodes.clone(),
        }
    }

    /// Bytes on each of its nodes.
    pub(crate) fn fragment_bytes(&self) -> u64 {
        self.capacity_bytes / (self.nodes.len() as u64).max(1)
    }
}

impl Ground {
    /// What `site` has now.
    ///
    /// # Errors
    /// The disk cannot be asked.
    pub(crate) fn of(site: &impl Site) -> Result<Ground, ApiError> {
        Ok(match site.cluster() {
            None => Ground::of_machine(site.disk()?),
            Some(setting) => {
                let disk = DiskSpace { available_bytes: 0 };
                Ground { pools: setting.pools, views: site.nodes(), disk }
            }
        })
    }

    /// One machine's, whose one pool is its disk.
    pub(super) fn of_machine(disk: DiskSpace) -> Ground {
        let pool = PoolSetting {
            name: LOCAL_POOL.to_owned(),
            granularity_bytes: LOCAL_GRANULARITY_BYTES,
            kind: PoolKind::Disk,
            // They share one disk.
            persistent_redundancy: Redundancy::None,
            uids: Vec::new(),
            root_squash: false,
            encrypt: false,
        };
        Ground { pools: vec![pool], views: Vec::new(), disk }
    }

    /// Whether what is said of buffers in this pool is encrypted; `None`: it is configured no more.
    pub(crate) fn encrypts(&self, pool: &str) -> Option<bool> {
        self.pools.iter().find(|known| known.name == pool).map(|known| known.encrypt)
    }

    /// The pool of that name; `None` names the default pool.
    ///
    /// # Errors
    /// `unknown_pool`, with those that there are.
    pub(crate) fn pool(&self, name: Option<&str>) -> Result<&PoolSetting, ApiError> {
        let found = match name {
            None => self.pools.first(),
            Some(name) => self.pools.iter().find(|pool| pool.name == name),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = self.pools.iter().map(|pool| pool.name.as_str()).collect();
            one_machine::unknown_pool(name.unwrap_or_default(), &names)
        })
    }
}

/// Rounds up so that each of `count` fragments gets the same whole number of grains: bytes of one, bytes of all.
///
/// # Errors
/// More than 2^64 bytes.
pub(crate) fn equal_parts(
    requested_bytes: u64,
    granularity_bytes: u64,
    count: u64,
) -> Result<(u64, u64), ApiError> {
    let parts = || {
        let grains = size::grains(requested_bytes, granularity_bytes)?.div_ceil(count.max(1));
        let fragment_bytes = grains.checked_mul(granularity_bytes)?;
        Some((fragment_bytes, fragment_bytes.checked_mul(count.max(1))?))
    };
    let too_large = || {
        user(
            ErrorCode::TooLarge,
            format!("a buffer of {requested_bytes} bytes is not possible"),
            "ask for less",
        )
    };
    parts().ok_or_else(too_large)
}

/// The remark on rounding; `None` where nothing was rounded.
pub(crate) fn rounding_note(
    requested_bytes: u64,
    capacity_bytes: u64,
    granularity_bytes: u64,
) -> Option<String> {
    let grains = capacity_bytes / granularity_bytes.max(1);
    (capacity_bytes != requested_bytes).then(|| {
        format!(
            "capacity {requested_bytes} bytes rounded up to {grains} {} of {} ({capacity_bytes} bytes)",
            if grains == 1 { "grain" } else { "grains" },
            display(granularity_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_gets_the_same_whole_number_of_grains() {
        assert_eq!(equal_parts(10_000_000_000, 1 << 20, 1).unwrap(), (9537 << 20, 9537 << 20));
        assert_eq!(equal_parts(10_000_000_000, 1 << 20, 4).unwrap(), (2385 << 20, 9540 << 20));
        assert!(equal_parts(u64::MAX, 1 << 20, 4).is_err());
        assert_eq!(rounding_note(1 << 30, 1 << 30, 1 << 20), None);
        let note = rounding_note(10_000_000_000, 9537 << 20, 1 << 20).unwrap();
        assert!(note.contains("9537 grains of 1 MiB"), "{note}");
    }
}
