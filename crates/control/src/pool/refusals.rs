//! What is said to those for whom a pool has no room.

use daemon::error::{site, user};
use model::size::display;
use wire::control::{ApiError, PoolStatus};

use super::{LOCAL_POOL, Wish};

/// Checks that a pool could hold a wish.
///
/// # Errors
/// It could not, ever.
pub(super) fn check_total(pool: &PoolStatus, capacity_bytes: u64, wish: &Wish<'_>) -> Result<(), ApiError> {
    let total = pool.quantity * pool.granularity_bytes;
    if capacity_bytes.saturating_mul(wish.copies()) <= total {
        return Ok(());
    }
    let message = format!("{}, pool {} has {}", asked(capacity_bytes, wish), pool.name, numbers(total));
    let advice = match pool.name == LOCAL_POOL {
        true => "ask for less, or use --dir on a larger disk",
        false => "ask for less",
    };
    Err(user("pool_too_small", message, advice))
}

/// It cannot now.
pub(super) fn full(pool: &PoolStatus, capacity_bytes: u64, wish: &Wish<'_>) -> ApiError {
    let total = display(pool.quantity * pool.granularity_bytes);
    let message = format!(
        "{}, pool {} has {} free of {total}",
        asked(capacity_bytes, wish),
        pool.name,
        numbers(pool.free * pool.granularity_bytes)
    );
    let advice =
        "ask for less, or remove buffers: `forebay status` lists them, `forebay rm TOKEN` removes one";
    site("pool_full", message, advice)
}

/// What a buffer of that size takes.
fn asked(capacity_bytes: u64, wish: &Wish<'_>) -> String {
    let asked = format!("the buffer asks for {}", numbers(capacity_bytes));
    match wish.copies() {
        1 => asked,
        copies => {
            let taken = display(capacity_bytes.saturating_mul(copies));
            format!("{asked}, which takes {taken} as each byte is kept on two nodes")
        }
    }
}

/// Bytes for people and for programs.
pub(super) fn numbers(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", display(bytes))
}
