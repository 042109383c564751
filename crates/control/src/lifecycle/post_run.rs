//! `post_run`: fence the clients and unmount. What they held is written back, unless in a hurry.

use model::phase::Phase;
use wire::control::{ApiError, PostRun};

use super::mounts::unmount_all;
use super::{Done, require_instance};
use crate::control::Control;
use crate::site::Site;
use crate::state::sessions;

/// Unmounts. Also takes away what a `pre_run` left that did not finish.
///
/// # Errors
/// A node does not let go.
pub async fn run<S: Site>(control: &Control<S>, token: &str, how: PostRun) -> Result<Done, ApiError> {
    let session = control.session(token).await?;
    require_instance(&session)?;
    unmount_all(control, token, how.hurry).await?;
    if session.phase != Phase::Mounted {
        return Ok(Done::Already);
    }
    let token = token.to_owned();
    control.database.transact(move |tx| sessions::set_phase(tx, &token, Phase::Unmounted)).await?;
    Ok(Done::Now)
}
