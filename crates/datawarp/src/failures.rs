//! The files whose stages failed, one after the other.

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use model::phase::Direction;
use rustix::io::Errno;
use wire::control::{FailedStage, StageQuery, StageScope};

use crate::buffer::{InBuffer, is_gone, post};
use crate::foreign::{give, path, result};

/// `dw_failed_stage_t`: what failed when it was opened.
#[derive(Debug)]
pub struct Handle {
    /// Absolute paths and errnos, the next last.
    left: Vec<(PathBuf, i32)>,
}

/// Opens the list of failures of a buffer.
///
/// # Safety
/// A C string and a place for the handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_open_failed_stage(
    dw_instance_path: *const c_char,
    handle: *mut *mut Handle,
) -> c_int {
    result(|| {
        if handle.is_null() {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: the caller's promise.
        let found = InBuffer::find(&unsafe { path(dw_instance_path) }?)?;
        let query =
            StageQuery { place: found.mounted.place(), scope: StageScope::All, wait_ms: 0, after: None };
        let failed: Vec<FailedStage> = post("/failed", &query)?;
        let left = failed.into_iter().rev();
        let left = left.map(|stage| (found.mounted.mountpoint.join(&stage.path), stage));
        // A file that was unlinked is not to be staged out any more.
        let wanted = left.filter(|(path, stage)| stage.direction == Direction::In || !is_gone(path));
        let opened = Handle { left: wanted.map(|(path, stage)| (path, stage.errno)).collect() };
        // SAFETY: not NULL, so a place for a pointer.
        unsafe { handle.write(Box::into_raw(Box::new(opened))) };
        Ok(())
    })
}

/// Reads the next failure.
///
/// # Safety
/// An open handle, room for `path_size` bytes and for an int, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_read_failed_stage(
    handle: *mut Handle,
    path: *mut c_char,
    path_size: c_int,
    ret_errno: *mut c_int,
) -> c_int {
    result(|| {
        let room = usize::try_from(path_size).unwrap_or(0);
        if handle.is_null() || path.is_null() || room == 0 {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: an open handle is ours, from `dw_open_failed_stage`, and one thread at a time has it.
        let left = unsafe { &mut (*handle).left };
        let next = left.last().cloned();
        let (text, errno) = next.as_ref().map_or((&b""[..], 0), |(path, errno)| {
            (path.as_os_str().as_bytes(), u64::from(errno.unsigned_abs()))
        });
        if text.len() >= room {
            // It stays the next: the caller may come with more room.
            return Err(Errno::RANGE.into());
        }
        // SAFETY: there is room for the text and the zero at its end, which do not overlap what is ours.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), path.cast(), text.len());
            path.add(text.len()).write(0);
            give(ret_errno, errno);
        }
        left.pop().map(|_| ()).ok_or(Errno::NODATA.into())
    })
}

/// Closes the list.
///
/// # Safety
/// An open handle, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_close_failed_stage(handle: *mut Handle) -> c_int {
    result(|| {
        if handle.is_null() {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: it came from `Box::into_raw`, and who closes it does not use it again.
        drop(unsafe { Box::from_raw(handle) });
        Ok(())
    })
}
