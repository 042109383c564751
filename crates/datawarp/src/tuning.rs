//! Concurrency, layout and accounts.

use std::ffi::{c_char, c_int, c_uint};
use std::path::Path;

use model::phase::AccessMode;
use model::stripe::Layout;
use rustix::io::Errno;
use wire::control::{BufferStatus, StageConcurrency, StageScope};

use crate::buffer::{InBuffer, borrow, count, post};
use crate::error::Error;
use crate::foreign::{give, path, result, text};

/// Stripe sizes are multiples of it.
const STRIPE_UNIT: c_int = 4096;

/// Sets how many stages of a buffer may run at once.
///
/// # Safety
/// A C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_set_stage_concurrency(
    dw_instance_path: *const c_char,
    concurrent_stages: c_uint,
) -> c_int {
    result(|| {
        // SAFETY: the caller's promise.
        let found = InBuffer::find(&unsafe { path(dw_instance_path) }?)?;
        let wanted = StageConcurrency { place: found.mounted.place(), concurrency: concurrent_stages };
        post("/concurrency", &wanted).map(|_: serde_json::Value| ())
    })
}

/// Takes a wish for how a new file or the files of a new folder are spread. All files of a buffer are spread over all
/// its nodes, so a valid wish changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn dw_set_stripe_configuration(fd: c_int, stripe_size: c_int, stripe_width: c_int) -> c_int {
    result(|| {
        let (_, stat) = InBuffer::of_descriptor(fd)?;
        let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        let valid = stripe_size > 0 && stripe_size % STRIPE_UNIT == 0 && stripe_width > 0;
        if !valid || (is_file && stat.st_size > 0) { Err(Errno::INVAL.into()) } else { Ok(()) }
    })
}

/// Tells how a file is spread.
///
/// # Safety
/// Places for ints, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_get_stripe_configuration(
    fd: c_int,
    stripe_size: *mut c_int,
    stripe_width: *mut c_int,
    starting_index: *mut c_int,
) -> c_int {
    result(|| {
        let (mounted, stat) = InBuffer::of_descriptor(fd)?;
        let buffer: BufferStatus = post("/buffer", &mounted.place())?;
        let layout = layout(&buffer);
        // SAFETY: the caller's promise.
        unsafe {
            give(stripe_size, layout.stripe_size_bytes.into());
            give(stripe_width, layout.width.into());
            give(starting_index, (layout.start(stat.st_ino.into()).get() % layout.width).into());
        }
        Ok(())
    })
}

fn layout(buffer: &BufferStatus) -> Layout {
    let fragments = u32::try_from(buffer.instance.nodes.len()).unwrap_or(1).max(1);
    match buffer.access_mode {
        AccessMode::Striped => Layout::striped(fragments),
        AccessMode::Private => Layout::whole_files(fragments),
    }
}

/// The folder below which the metadata server of this key is: there is one server for a namespace.
///
/// # Safety
/// A C string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_get_mds_path(dw_root: *const c_char, _key: u64) -> *mut c_char {
    text(|| {
        // SAFETY: the caller's promise.
        let root = unsafe { path(dw_root) }?;
        InBuffer::folder(&root)?;
        Ok(root.to_str().ok_or(Errno::ILSEQ)?.to_owned())
    })
    .0
}

/// The account of a buffer.
///
/// # Safety
/// A C string and a place for an int, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dw_get_accounting_data_json(dw_path: *const c_char, err: *mut c_int) -> *mut c_char {
    // SAFETY: the caller's promise.
    let (text, code) = text(|| account(&unsafe { path(dw_path) }?));
    if !err.is_null() {
        // SAFETY: not NULL, so a place for an int.
        unsafe { err.write(code) };
    }
    text
}

fn account(path: &Path) -> Result<String, Error> {
    let found = InBuffer::find(path)?;
    let buffer: BufferStatus = post("/buffer", &found.mounted.place())?;
    let counts = count(found.mounted.place(), StageScope::All)?;
    Ok(serde_json::json!({
        "token": buffer.token,
        "instance": buffer.instance,
        "access_mode": buffer.access_mode,
        "stages": counts,
    })
    .to_string())
}

/// Returns when what was written to a file is safe.
#[unsafe(no_mangle)]
pub extern "C" fn dw_wait_sync_complete(fd: c_int) -> c_int {
    result(|| Ok(rustix::fs::fsync(borrow(fd)?)?))
}
