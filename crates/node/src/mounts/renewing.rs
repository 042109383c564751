//! Another credential for a mount: the key of its buffer is being changed.

use std::io;

use daemon::error::{site, user};
use wire::control::{ApiError, ErrorCode};
use wire::data::Credential;
use wire::data::renewed::MARK;

use super::{Mounts, keep_spec};
use crate::folder::of_id;
use crate::mount_table::MountTable;

impl<T: MountTable> Mounts<T> {
    /// Keeps another credential for mount `id`, where its process finds it when the former one is refused.
    ///
    /// # Errors
    /// There is none, its process cannot take another one, or the node's disk failed.
    pub(crate) async fn renew(&self, id: &str, credential: Credential) -> Result<(), ApiError> {
        let _lock = self.locks.lock(id).await;
        let folder = of_id(&self.setting.folder, id)?;
        let Some(mut handle) = self.find(id)? else {
            let message = format!("there is no mount {id} here");
            return Err(user(ErrorCode::NoSuchMount, message, "repeat the command"));
        };
        handle.spec.target.credential = Some(credential);
        let failed = |error: io::Error| {
            let message = format!("keep the credential of mount {id} in {}: {error}", folder.display());
            site(ErrorCode::NodeDisk, message, "check the state folder's disk")
        };
        keep_spec(&handle.spec, &folder).map_err(failed)?;
        // Not one that ended meanwhile, which has taken itself out of the table.
        if let Some(known) = self.lock().get_mut(id) {
            known.spec = handle.spec;
        }
        // One that is only being started reads the present one.
        let is_mounted = handle.view.borrow().status.mounted;
        match is_mounted && !disk::exists(&folder.join(MARK)).map_err(failed)? {
            true => Err(of_older_release(id)),
            false => Ok(()),
        }
    }
}

fn of_older_release(id: &str) -> ApiError {
    let message = format!("the program of mount {id} is of an older release, which cannot take another key");
    site(ErrorCode::KeyInUse, message, "wait until it is unmounted")
}
