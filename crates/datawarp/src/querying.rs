//! How stages are: asking, waiting and terminating.

use std::ffi::{c_char, c_int};

use api::mounted::Mounted;
use rustix::io::Errno;
use wire::control::{Change, StageCounts, StageScope};

use crate::buffer::{InBuffer, count_existing, settled};
use crate::error::Error;
use crate::foreign::{give, path, paths, result};
use crate::staging::alter;

/// What a function is about.
type Subject = (Mounted, StageScope);

/// # Safety
/// A C string, or NULL.
unsafe fn file(text: *const c_char) -> Result<Subject, Error> {
    // SAFETY: the caller's promise.
    let found = InBuffer::find(&unsafe { path(text) }?)?;
    Ok((found.mounted, StageScope::Files(vec![found.path])))
}

/// # Safety
/// A C string, or NULL.
unsafe fn directory(text: *const c_char) -> Result<Subject, Error> {
    // SAFETY: the caller's promise.
    let found = InBuffer::find(&unsafe { path(text) }?)?;
    Ok((found.mounted, StageScope::Directory(found.path)))
}

/// # Safety
/// A list of C strings that NULL ends, or NULL.
unsafe fn list(texts: *const *const c_char) -> Result<Subject, Error> {
    // SAFETY: the caller's promise.
    let (mounted, files) = InBuffer::of_list(&unsafe { paths(texts) }?, InBuffer::find)?;
    Ok((mounted, StageScope::Files(files)))
}

/// Counts, into places that may be NULL.
///
/// # Safety
/// Each of `places` is NULL or a place for an int.
unsafe fn query(subject: Result<Subject, Error>, places: [*mut c_int; 4]) -> Result<(), Error> {
    let (mounted, scope) = subject?;
    let StageCounts { complete, pending, deferred, failed, .. } = count_existing(&mounted, &scope)?;
    for (place, number) in places.into_iter().zip([complete, pending, deferred, failed]) {
        // SAFETY: the caller's promise.
        unsafe { give(place, number) };
    }
    Ok(())
}

fn wait(subject: Result<Subject, Error>) -> Result<(), Error> {
    let (mounted, scope) = subject?;
    let counts = settled(&mounted.place(), &scope)?;
    match counts {
        counts if counts.is_empty() => Err(Errno::INVAL.into()),
        StageCounts { failed: 1.., errno: 1.., .. } => Err(Errno::from_raw_os_error(counts.errno).into()),
        StageCounts { failed: 1.., .. } => Err(Errno::IO.into()),
        // What waits for the end of the job would be waited for until the job is killed for it.
        StageCounts { deferred: 1.., .. } => Err(Errno::DEADLK.into()),
        _ => Ok(()),
    }
}

fn terminate(subject: Result<Subject, Error>) -> Result<(), Error> {
    let (mounted, scope) = subject?;
    alter(mounted.place(), scope, Change::Terminate)
}

/// Counts the stages of a file.
///
/// # Safety
/// A C string or NULL; places for ints or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_query_file_stage(
    dw_path: *const c_char,
    complete: *mut c_int,
    pending: *mut c_int,
    deferred: *mut c_int,
    failed: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    result(|| unsafe { query(file(dw_path), [complete, pending, deferred, failed]) })
}

/// Counts the stages of a folder and of what is in it.
///
/// # Safety
/// A C string or NULL; places for ints or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_query_directory_stage(
    dw_path: *const c_char,
    complete: *mut c_int,
    pending: *mut c_int,
    deferred: *mut c_int,
    failed: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    result(|| unsafe { query(directory(dw_path), [complete, pending, deferred, failed]) })
}

/// Counts the stages of files.
///
/// # Safety
/// A list of C strings that NULL ends, or NULL; places for ints or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_query_list_stage(
    dw_list: *const *const c_char,
    complete: *mut c_int,
    pending: *mut c_int,
    deferred: *mut c_int,
    failed: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    result(|| unsafe { query(list(dw_list), [complete, pending, deferred, failed]) })
}

/// Waits for the stages of a file.
///
/// # Safety
/// A C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_wait_file_stage(dw_path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result(|| wait(unsafe { file(dw_path) }))
}

/// Waits for the stages of a folder and of what is in it.
///
/// # Safety
/// A C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_wait_directory_stage(dw_path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result(|| wait(unsafe { directory(dw_path) }))
}

/// Waits for the stages of files.
///
/// # Safety
/// A list of C strings that NULL ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_wait_list_stage(dw_list: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result(|| wait(unsafe { list(dw_list) }))
}

/// Stops and forgets the stages of a file.
///
/// # Safety
/// A C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_terminate_file_stage(dw_path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result(|| terminate(unsafe { file(dw_path) }))
}

/// Stops and forgets the stages of a folder and of what is in it.
///
/// # Safety
/// A C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_terminate_directory_stage(dw_path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result(|| terminate(unsafe { directory(dw_path) }))
}

/// Stops and forgets the stages of files.
///
/// # Safety
/// A list of C strings that NULL ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_terminate_list_stage(dw_list: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    result(|| terminate(unsafe { list(dw_list) }))
}
