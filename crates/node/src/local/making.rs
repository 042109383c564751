//! How a volume comes to be.
//!
//! **Invariant:** a volume that is on disk is in the table, with a keeper that looks after it, before the next call for
//! it is answered; what could not be removed of one that could not be made is there as well, and goes.

use std::sync::Arc;
use std::time::Duration;

use daemon::error::{bug, user};
use wire::control::{ApiError, ErrorCode};
use wire::node::{LocalSpec, LocalStatus};

use super::volume::{NotMade, Volume};
use super::{Handle, Kept, Life, Locals};
use crate::folder::of_id;

/// How long the volume of a job's earlier run may take to be gone.
const GOES_WITHIN: Duration = Duration::from_secs(20);

impl Locals {
    /// Makes the volume and mounts it; idempotent.
    ///
    /// # Errors
    /// There is no room, another job of the user has the path, or the node's disk failed.
    pub(crate) async fn create(self: &Arc<Self>, spec: LocalSpec) -> Result<LocalStatus, ApiError> {
        let _lock = self.locks.lock(&spec.id).await;
        let _one_at_a_time = self.making.lock().await;
        self.find(&spec.id)?;
        of_id(&self.setting.local_root, &spec.user)?;
        self.leave_time_to_go(&spec.id).await;
        match self.same(&spec)? {
            Some(status) => Ok(status),
            None => self.make(spec).await,
        }
    }

    /// The volume that is asked for, if it is there.
    fn same(&self, spec: &LocalSpec) -> Result<Option<LocalStatus>, ApiError> {
        if let Some(handle) = self.lock().get(&spec.id) {
            if handle.spec.is_asked_by(spec) && *handle.life.borrow() == Life::Held {
                return Ok(Some(handle.status.borrow().clone()));
            }
            let message = format!("there is another volume {}", spec.id);
            return Err(user(
                ErrorCode::LocalDiffers,
                message,
                "wait until it is discarded: see `forebay local list`",
            ));
        }
        let Some(id) = self.holder_of(&spec.user) else { return Ok(None) };
        let message =
            format!("{}/{} is the volume of job {id}", self.setting.local_root.display(), spec.user);
        Err(user(ErrorCode::LocalInUse, message, "run one job with node-local flash on a node at a time"))
    }

    async fn make(self: &Arc<Self>, spec: LocalSpec) -> Result<LocalStatus, ApiError> {
        let capacity_bytes = spec.capacity_bytes.unwrap_or(self.setting.capacity_bytes);
        let kind = self.setting.kind.clone();
        let kept = Kept { spec, capacity_bytes, released: false, given_up: false, kind };
        let volume = Volume::of(&self.setting, &self.user_paths, &kept);
        let made = tokio::task::spawn_blocking({
            let (setting, kept) = (Arc::clone(&self.setting), kept.clone());
            move || volume.make(&setting, &kept)
        });
        let made = made.await.map_err(|error| bug(ErrorCode::LocalPanicked, error.to_string()))?;
        *self.lock_free() = None;
        match made {
            Ok(()) => Ok(self.take_up(kept)),
            Err(NotMade { error, left }) => {
                if left {
                    self.take_up(Kept { given_up: true, ..kept });
                }
                Err(error)
            }
        }
    }

    /// A job that runs again may have had the volume before: what is released and owes nothing is gone in a moment.
    async fn leave_time_to_go(&self, id: &str) {
        let goes = |handle: &&Handle| *handle.life.borrow() != Life::Held;
        let status = self.lock().get(id).filter(goes).map(|handle| handle.status.clone());
        if let Some(mut status) = status {
            let gone = async { while status.changed().await.is_ok() {} };
            let _ = tokio::time::timeout(GOES_WITHIN, gone).await;
        }
    }

    /// The job that has the user's path.
    fn holder_of(&self, user: &str) -> Option<String> {
        let locals = self.lock();
        let mut holders =
            locals.values().filter(|handle| handle.spec.user == user && *handle.life.borrow() == Life::Held);
        holders.next().map(|handle| handle.spec.id.clone())
    }
}
