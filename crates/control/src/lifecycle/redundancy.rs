//! Which buffers can be kept on two nodes.

use model::phase::{AccessMode, Redundancy};
use wire::control::{ApiError, one_machine};

use crate::app::App;
use crate::pool::{self, Ground};
use crate::script::Own;
use crate::site::Site;

/// On how many nodes a persistent buffer of these access modes is to be, and whether that is only its pool's wish: it
/// is kept on one where there is no room for two.
///
/// # Errors
/// An unknown pool, or a disk that cannot be asked.
pub(crate) fn of_persistent<S: Site>(
    app: &App<S>,
    asked: Option<Redundancy>,
    pool: Option<&str>,
    modes: &[AccessMode],
) -> Result<(Redundancy, bool), ApiError> {
    if let Some(asked) = asked {
        return Ok((asked, false));
    }
    let wished = Ground::of(&app.site)?.pool(pool)?.persistent_redundancy;
    let is_wished = wished == Redundancy::Mirror && !modes.contains(&AccessMode::Private);
    Ok(if is_wished { (Redundancy::Mirror, true) } else { (Redundancy::None, false) })
}

/// Refuses a mirror where there can be none. Whether there are two nodes is the pool's to say.
///
/// # Errors
/// The buffer is private, or on the flash of the job's own nodes.
pub(crate) fn check<S: Site>(app: &App<S>, own: &Own) -> Result<(), ApiError> {
    if own.behaviour.redundancy == Redundancy::None {
        return Ok(());
    }
    if own.access_modes.contains(&AccessMode::Private) {
        return Err(one_machine::no_private_mirror());
    }
    pool::kind_in(&app.site, own.pool.as_deref(), &own.access_modes)?.check_mirror()
}
