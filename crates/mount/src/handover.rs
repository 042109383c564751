//! Giving the mount's device to the supervisor, which keeps the mount alive with it when this process dies, and gives
//! it to a successor.
//!
//! Whoever connects to the socket beside the mount's specification is sent the device. The folder is its owner's alone.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use fuse::device::Device;

/// Offers `device` on the socket `path`, in place of one that a former process left there.
///
/// # Errors
/// What the file system or the socket says.
pub fn offer(device: Device, path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new().name("handover".into()).spawn(move || {
        for socket in listener.incoming() {
            if let Err(error) = socket.and_then(|socket| device.send(&socket)) {
                tracing::warn!(%error, "cannot give the mount's device to the supervisor");
            }
        }
    })?;
    Ok(())
}

/// Takes the offer at `path` back: the mount has ended, and no successor is wanted.
pub fn withdraw(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot say that no successor is wanted");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn whoever_connects_gets_the_same_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().join("device.sock"), std::fs::File::open("/proc/self/exe").unwrap());
        let inode = file.metadata().unwrap().ino();
        offer(Device::from(OwnedFd::from(file)), &path).unwrap();
        for _ in 0..2 {
            let got = Device::receive(&UnixStream::connect(&path).unwrap()).unwrap();
            assert_eq!(rustix::fs::fstat(got.as_fd()).unwrap().st_ino, inode);
        }
        // A former process's socket is in nobody's way.
        let other = std::fs::File::open("/proc/self/status").unwrap();
        offer(Device::from(OwnedFd::from(other)), &path).unwrap();
        let got = Device::receive(&UnixStream::connect(&path).unwrap()).unwrap();
        assert_ne!(rustix::fs::fstat(got.as_fd()).unwrap().st_ino, inode);
    }
}
