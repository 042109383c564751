//! What is said to those for whom a pool has no room, and of stages that it cannot have.

use daemon::error::{site, user};
use model::phase::AccessMode;
use model::size::display;
use wire::control::{ApiError, ErrorCode, PoolStatus};

use super::room::{LOCAL_POOL, Wish};
use crate::script::Plan;

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
    Err(user(ErrorCode::PoolTooSmall, message, advice))
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
    site(ErrorCode::PoolFull, message, advice)
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

/// Refuses stages of private namespaces where each node has one.
///
/// # Errors
/// The script has one.
pub(super) fn no_private_stage(plan: &Plan) -> Result<(), ApiError> {
    let stage = plan.stages.iter().find(|stage| stage.access_mode == AccessMode::Private);
    let Some(stage) = stage else { return Ok(()) };
    let message = format!("{} cannot be staged: every node has a private buffer of its own", stage.source());
    Err(user(ErrorCode::PrivateStage, message, "stage with $DW_JOB_STRIPED and copy within the job"))
}
