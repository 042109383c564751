//! The pool `local`: the disk behind the state folder.
//!
//! Space that is promised to an instance and not yet written still shows as available on the disk; it is counted as
//! taken here, so that what is free can really be filled.

use daemon::error::{site, user};
use model::size::display;
use wire::control::{ApiError, PoolStatus, VolumeKind};

use crate::script::{GRANULARITY_BYTES, POOL};
use crate::site::DiskSpace;
use crate::state::instances::Instance;

/// What an instance takes of the disk.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Bytes allocated.
    pub capacity_bytes: u64,
    /// Bytes that the disk already counts.
    pub on_disk_bytes: u64,
}

impl Share {
    /// The share of `instance`, which holds `used_bytes`.
    pub fn of(instance: &Instance, used_bytes: u64) -> Share {
        let on_disk_bytes = match instance.volume {
            VolumeKind::Directory => used_bytes.min(instance.capacity_bytes),
            // Preallocated whole.
            VolumeKind::Image => instance.capacity_bytes,
        };
        Share { capacity_bytes: instance.capacity_bytes, on_disk_bytes }
    }
}

/// The pool as everybody sees it.
pub fn status(disk: DiskSpace, shares: &[Share]) -> PoolStatus {
    let allocated: u64 = shares.iter().map(|share| share.capacity_bytes).sum();
    let promised: u64 = shares.iter().map(|share| share.capacity_bytes - share.on_disk_bytes).sum();
    let free = disk.available_bytes.saturating_sub(promised);
    PoolStatus {
        name: POOL.to_owned(),
        granularity_bytes: GRANULARITY_BYTES,
        quantity: (allocated + free) / GRANULARITY_BYTES,
        free: free / GRANULARITY_BYTES,
    }
}

/// Whether the pool could ever hold that much.
///
/// # Errors
/// `pool_too_small`, with both numbers.
pub fn check_total(pool: &PoolStatus, capacity_bytes: u64) -> Result<(), ApiError> {
    let total = pool.quantity * pool.granularity_bytes;
    if capacity_bytes <= total {
        return Ok(());
    }
    let message =
        format!("the buffer asks for {}, pool {POOL} has {}", numbers(capacity_bytes), numbers(total));
    Err(user("pool_too_small", message, "ask for less, or use --dir on a larger disk"))
}

/// Whether the pool can hold that much now.
///
/// # Errors
/// `pool_full`, with all three numbers.
pub fn check_free(pool: &PoolStatus, capacity_bytes: u64) -> Result<(), ApiError> {
    check_total(pool, capacity_bytes)?;
    let free = pool.free * pool.granularity_bytes;
    if capacity_bytes <= free {
        return Ok(());
    }
    let total = display(pool.quantity * pool.granularity_bytes);
    let message = format!(
        "the buffer asks for {}, pool {POOL} has {} free of {total}",
        numbers(capacity_bytes),
        numbers(free)
    );
    Err(site(
        "pool_full",
        message,
        "ask for less, or remove buffers: `forebay status` lists them, `forebay rm` removes one",
    ))
}

fn numbers(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", display(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_but_not_written_is_not_free() {
        let disk = DiskSpace { available_bytes: 100 << 20 };
        let directory = Share { capacity_bytes: 40 << 20, on_disk_bytes: 10 << 20 };
        let image = Share { capacity_bytes: 20 << 20, on_disk_bytes: 20 << 20 };
        let pool = status(disk, &[directory, image]);
        assert_eq!((pool.free, pool.quantity), (70, 130));
        check_free(&pool, 70 << 20).unwrap();
        assert_eq!(check_free(&pool, 71 << 20).unwrap_err().code, "pool_full");
        let error = check_free(&pool, 131 << 20).unwrap_err();
        assert_eq!(error.code, "pool_too_small");
        assert!(error.message.contains("131 MiB") && error.message.contains("130 MiB"), "{}", error.message);
    }
}
