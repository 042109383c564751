//! Another credential for a mount: the key of its buffer is being changed.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use daemon::error::{site, user};
use wire::control::{ApiError, ErrorCode};
use wire::data::Credential;
use wire::data::renewed::{MARK, tag};

use super::{Mounts, keep_spec};
use crate::folder::of_id;
use crate::mount_table::MountTable;

/// How long a mount may take to say nothing more in clear text.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks at that.
const PAUSE: Duration = Duration::from_millis(5);

impl<T: MountTable> Mounts<T> {
    /// Keeps another credential for mount `id`, where its process finds it. Where what is said by it is encrypted, the
    /// process says nothing more in clear text when this returns.
    ///
    /// # Errors
    /// There is none, its process cannot take another one or does not in time, or the node's disk failed.
    pub(crate) async fn renew(&self, id: &str, credential: Credential) -> Result<(), ApiError> {
        let _lock = self.locks.lock(id).await;
        let folder = of_id(&self.setting.folder, id)?;
        let Some(mut handle) = self.find(id)? else {
            let message = format!("there is no mount {id} here");
            return Err(user(ErrorCode::NoSuchMount, message, "repeat the command"));
        };
        handle.spec.target.credential = Some(credential.clone());
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
        if is_mounted && !disk::exists(&folder.join(MARK)).map_err(failed)? {
            return Err(of_older_release(id));
        }
        match is_mounted && credential.is_encrypted() {
            true => until_heard(id, &folder.join(MARK), &credential).await,
            false => Ok(()),
        }
    }
}

/// Waits until the process of a mount says that it goes by the credential.
async fn until_heard(id: &str, mark: &Path, credential: &Credential) -> Result<(), ApiError> {
    let (begun, tag) = (Instant::now(), tag(credential));
    // Where it cannot be read it is as if nothing were said.
    while !tokio::fs::read_to_string(mark).await.is_ok_and(|said| said == tag) {
        if begun.elapsed() > HEARD_WITHIN {
            let message = format!("mount {id} has not taken the new key within {} s", HEARD_WITHIN.as_secs());
            return Err(site(
                ErrorCode::KeyInUse,
                message,
                "unmount it and repeat the command; its log says why it did not",
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

fn of_older_release(id: &str) -> ApiError {
    let message = format!("mount {id} runs an older release of forebay-mount, which cannot take another key");
    site(ErrorCode::KeyInUse, message, "unmount it, or wait for its job to end; then repeat the command")
}
