//! Whether a buffer that is mounted is mounted here: a mount is seen in one mount namespace, of a job or a container,
//! and a state folder in many.
//!
//! **Invariant:** nobody is told that a buffer is mounted, and no command starts, where its folder is not that mount.

use std::path::Path;

use disk::mount_table::{self, Mount, reach};
use model::NodeName;
use wire::control::{ActivationStatus, SessionStatus};

use crate::failure::Failure;
use crate::{env, identity};

/// How several commands go on beside each other.
const APART: &str = "give this command a folder of its own with `--dir ANOTHER_FOLDER`, or repeat it when no other \
                     command uses this one";

/// What this host is called in an allocation of Slurm.
pub fn own_node() -> String {
    env::slurm_node().unwrap_or_else(identity::host)
}

/// Whether what the service of the state folder `folder` mounts at `place` is to be seen here; `pid` is its process, 0
/// where that has no number here.
///
/// # Errors
/// It is not.
pub fn check_service(folder: &Path, pid: i32, place: &Path) -> Result<(), Failure> {
    let service = match pid {
        0 => "forebay-control".to_owned(),
        // Of a process that nobody may look at the mount itself tells.
        pid if reach::is_seen_from(pid, place).unwrap_or(true) => return Ok(()),
        pid => format!("forebay-control (process {pid})"),
    };
    Err(elsewhere(
        folder,
        &format!("its {service} runs in another mount namespace, as another job or a container has"),
    ))
}

/// The state folder `folder` is worked on where this process does not see it.
pub fn elsewhere(folder: &Path, what: &str) -> Failure {
    let folder = folder.display();
    Failure::unavailable(
        format!("{folder} is used elsewhere: {what}, and what it mounts is not seen here"),
        APART,
    )
}

/// Whether every mount of this session on this host is seen here; `hosts`: those of an allocation, if it is over one.
///
/// # Errors
/// One is not, and nothing may be written where it is said to be.
pub fn check_mounts(status: &SessionStatus, hosts: &[NodeName]) -> Result<(), Failure> {
    let Some(instance) = &status.instance else { return Ok(()) };
    let own = own_node();
    let is_here =
        |mount: &&ActivationStatus| mount.mounted && (hosts.is_empty() || mount.node.as_str() == own);
    let mut here = status.activations.iter().filter(is_here).map(|mount| mount.mountpoint.as_path());
    match here.find(|place| !is_mounted(place, Some(instance.id.as_str()))) {
        None => Ok(()),
        Some(place) => Err(Failure::unavailable(
            format!(
                "buffer {} is mounted at {}, but in another mount namespace, as another job or a container has: here \
                 it is not seen",
                status.token,
                place.display()
            ),
            APART,
        )),
    }
}

/// Whether `place` is a mount of the instance, or of any of ours, and not something below or above one.
pub fn is_mounted(place: &Path, instance: Option<&str>) -> bool {
    // As the table has it: without links on the way there.
    let (Some(above), Some(name)) = (place.parent(), place.file_name()) else { return false };
    let Ok(place) = above.canonicalize().map(|above| above.join(name)) else { return false };
    let found = match mount_table::holding(&place) {
        Ok(mount) => Some(mount),
        // A mount whose process has just died, or an old kernel: then the table has to do.
        Err(_) => {
            let all = mount_table::mounts().unwrap_or_default();
            all.into_iter().rfind(|mount| mount.mountpoint == place)
        }
    };
    let is_it = |mount: &Mount| {
        mount.mountpoint == place
            && mount.instance().is_some_and(|found| instance.is_none_or(|id| id == found))
    };
    found.as_ref().is_some_and(is_it)
}
