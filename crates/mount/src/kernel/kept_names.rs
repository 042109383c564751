//! Has the kernel forget the names that it keeps.
//!
//! **Invariant:** once [`Names::forget`] has returned, the kernel uses no name that it was told before.

use std::io;
use std::time::Duration;

use fuse::abi::MINOR_EPOCHS;
use fuse::device::Device;
use fuse::notify::Notifier;
use fuse::session::Negotiated;

/// How long kernels keep names that cannot be told to forget them: no longer than who changes some can wait.
pub(super) const OLD_KERNELS_CACHE: Duration = Duration::from_secs(1);

/// The names that the kernel keeps.
#[derive(Debug)]
pub struct Names {
    notifier: Notifier,
    /// Whether it can be told to look at all of them again.
    epochs: bool,
}

impl Names {
    pub(super) fn new(device: &Device, negotiated: &Negotiated) -> Names {
        Names { notifier: Notifier::new(device), epochs: negotiated.minor >= MINOR_EPOCHS }
    }

    /// Returns when the kernel asks again for every name. Only where
    /// [`client::Sharing::names_kept`] has become zero.
    ///
    /// # Errors
    /// What the device says.
    pub fn forget(&self) -> io::Result<()> {
        if self.epochs {
            return self.notifier.names_changed();
        }
        std::thread::sleep(OLD_KERNELS_CACHE);
        Ok(())
    }
}
