//! A successor for a mount process that died, under the application's open files.
//!
//! While somebody holds the mount's device, the mount lives, and what the dead process had read and not answered waits:
//! the application sees a pause. So the node holds every mount's device, and starts the successor with it. Where that
//! fails the device is let go, which ends the mount: what waits fails, and the mount is made anew.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuse::device::Device;

use super::super::launch::{NotReady, Resume};
use super::Supervisor;
use crate::mount_table::MountTable;
use crate::process::Process;

/// Where a mount process offers its device, in the mount's folder.
const SOCKET: &str = "device.sock";

/// How long it may take to give it.
const GIVEN_WITHIN: Duration = Duration::from_secs(5);

/// A process that dies sooner may have died of a request that its successor gets, too, as its first.
const QUICK: Duration = Duration::from_millis(100);

/// After so many quick deaths in a row the request that kills is not asked again.
const QUICK_DEATHS_MAX: u32 = 20;

/// Pause before the second successor in a row that follows a quick death, the third, …: their sum is 10 s.
const PAUSE: Duration = Duration::from_millis(50);

/// What is held of a mount whose process may die.
#[derive(Debug, Default)]
pub(super) struct Hold {
    device: Option<Device>,
    quick_deaths: u32,
}

impl<T: MountTable> Supervisor<T> {
    /// Takes hold of the device of a mount whose process lives.
    pub(super) async fn hold(&mut self) {
        let socket = self.folder.join(SOCKET);
        let device = match fetch(socket).await {
            Ok(device) => Some(device),
            Err(error) => {
                let mount = &self.spec.id;
                tracing::info!(mount, %error, "no hold on the device: if its process dies, open files are lost");
                None
            }
        };
        self.hold = Hold { device, quick_deaths: 0 };
    }

    /// Lets go of the device: if its process is dead, the mount ends and what waits for it fails.
    pub(super) fn let_go(&mut self) {
        self.hold = Hold::default();
    }

    /// Whether the process has ended by itself.
    fn is_offer_withdrawn(&self) -> bool {
        let offer = std::fs::symlink_metadata(self.folder.join(SOCKET));
        offer.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// A successor of the process that has just died after it `lived` so long; `None`: the mount is lost.
    pub(super) async fn take_over(&mut self, lived: Duration) -> Option<Process> {
        // Not connected, or not offered any more: unmounted by somebody else, so that its end was no death.
        let device = self.hold.device.clone().filter(Device::is_connected)?;
        if self.is_offer_withdrawn() {
            self.let_go();
            return None;
        }
        if lived > QUICK {
            self.hold.quick_deaths = 0;
        }
        while self.hold.quick_deaths < QUICK_DEATHS_MAX {
            tokio::time::sleep(PAUSE * self.hold.quick_deaths).await;
            self.hold.quick_deaths += 1;
            match self.start(Resume::With(&device)).await {
                Ok(successor) => {
                    tracing::warn!(mount = self.spec.id, "its process died; another has taken over");
                    return Some(successor);
                }
                Err(not_ready) => {
                    let NotReady { reason, killed } = not_ready;
                    tracing::error!(
                        mount = self.spec.id,
                        reason,
                        "its process died, and the next does not begin"
                    );
                    self.end_process().await;
                    if !killed {
                        break;
                    }
                }
            }
        }
        tracing::error!(mount = self.spec.id, "no process takes over: what waits for the mount fails");
        self.let_go();
        None
    }
}

async fn fetch(socket: PathBuf) -> io::Result<Device> {
    tokio::task::spawn_blocking(move || fetch_blocking(&socket)).await.map_err(io::Error::other)?
}

fn fetch_blocking(socket: &Path) -> io::Result<Device> {
    let socket = UnixStream::connect(socket)?;
    socket.set_read_timeout(Some(GIVEN_WITHIN))?;
    Device::receive(&socket)
}
