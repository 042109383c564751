//! What comes from C and goes back: strings, lists, numbers, and results without panics.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::Error;

/// A list that is longer has lost its NULL.
const LIST_MAX: usize = wire::control::PAIRS_MAX;

/// Runs a function's body; its result in C's terms. A panic is a bug of ours, and the program's to survive.
pub fn result(body: impl FnOnce() -> Result<(), Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.code(),
        Err(_) => -Errno::IO.raw_os_error(),
    }
}

/// The same for a function that returns a text, which the caller frees. `Err` for NULL.
pub fn text(body: impl FnOnce() -> Result<String, Error>) -> (*mut c_char, c_int) {
    let made = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(Errno::IO.into()));
    match made.and_then(|text| CString::new(text).map_err(|_| Errno::ILSEQ.into())) {
        // SAFETY: strdup takes any C string and copies it; the result is for `free`, as callers expect.
        Ok(text) => match unsafe { strdup(text.as_ptr()) } {
            copy if copy.is_null() => (copy, -Errno::NOMEM.raw_os_error()),
            copy => (copy, 0),
        },
        Err(error) => (std::ptr::null_mut(), error.code()),
    }
}

unsafe extern "C" {
    /// strdup(3): memory of the C library, which callers free. Rust's own allocator's could not be.
    fn strdup(text: *const c_char) -> *mut c_char;
}

/// A path.
///
/// # Errors
/// EINVAL for NULL, ENOENT for an empty one, as open(2).
///
/// # Safety
/// NULL, or a C string.
pub unsafe fn path(text: *const c_char) -> Result<PathBuf, Error> {
    // SAFETY: the caller's promise.
    let path = unsafe { optional_path(text) }?;
    Ok(path.ok_or(Errno::INVAL)?)
}

/// A path that may be NULL.
///
/// # Errors
/// ENOENT for an empty one.
///
/// # Safety
/// NULL, or a C string.
pub unsafe fn optional_path(text: *const c_char) -> Result<Option<PathBuf>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so a C string by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    if bytes.is_empty() {
        return Err(Errno::NOENT.into());
    }
    Ok(Some(Path::new(OsStr::from_bytes(bytes)).to_owned()))
}

/// A list of paths that NULL ends.
///
/// # Errors
/// EINVAL for NULL, an empty list, or one that does not end.
///
/// # Safety
/// NULL, or a list of C strings with a NULL at its end.
pub unsafe fn paths(list: *const *const c_char) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    if list.is_null() {
        return Err(Errno::INVAL.into());
    }
    for at in 0..=LIST_MAX {
        // SAFETY: no element before this one was NULL, so this one is there.
        let text = unsafe { *list.add(at) };
        // SAFETY: NULL or a C string by the caller's promise.
        match unsafe { optional_path(text) }? {
            Some(path) => paths.push(path),
            None if paths.is_empty() => break,
            None => return Ok(paths),
        }
    }
    Err(Errno::INVAL.into())
}

/// Gives a number to a place that may be NULL.
///
/// # Safety
/// NULL, or a place for an int.
pub unsafe fn give(place: *mut c_int, number: u64) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(c_int::try_from(number).unwrap_or(c_int::MAX)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_arguments_are_told_from_paths() {
        // SAFETY: NULL and C strings.
        unsafe {
            assert_eq!(path(std::ptr::null()).unwrap_err().code(), -22);
            assert_eq!(path(c"".as_ptr()).unwrap_err().code(), -2);
            assert_eq!(path(c"/a".as_ptr()).unwrap(), Path::new("/a"));
            assert_eq!(optional_path(std::ptr::null()).unwrap(), None);
        }
    }

    #[test]
    fn a_list_ends_with_null_and_has_something_before_it() {
        let (full, empty) = ([c"a".as_ptr(), c"b".as_ptr(), std::ptr::null()], [std::ptr::null()]);
        // SAFETY: lists of C strings with a NULL at their end.
        unsafe {
            assert_eq!(paths(full.as_ptr()).unwrap(), [Path::new("a"), Path::new("b")]);
            assert_eq!(paths(empty.as_ptr()).unwrap_err().code(), -22);
            assert_eq!(paths(std::ptr::null()).unwrap_err().code(), -22);
        }
    }

    #[test]
    fn a_panic_is_an_errno_for_the_program() {
        assert_eq!(result(|| panic!("a bug")), -5);
        assert_eq!(text(|| panic!("a bug")), (std::ptr::null_mut(), -5));
    }
}
