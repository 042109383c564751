//! Paths as callers name them: checked, and in one form.

use std::path::{Component, Path, PathBuf};

use daemon::error::user;
use model::phase::{Direction, StageKind, StageState};
use wire::control::{ApiError, ErrorCode, FailedStage, StagePair, StageRequest, StageScope};

use crate::state::transfers::Transfer;

/// As long a path as the kernel takes: each folder above one is looked up.
const PATH_MAX: usize = 4096;

/// Both sides of one stage. A file that goes to a folder (a path that ends with a slash) keeps its name there.
///
/// # Errors
/// A path that is not absolute, or leads out of the buffer.
pub(super) fn of_pair(request: &StageRequest, pair: &StagePair) -> Result<(String, PathBuf), ApiError> {
    let pfs = &pair.pfs;
    if !pfs.is_absolute() || pfs.as_os_str().as_encoded_bytes().contains(&0) {
        let message = format!("not an absolute path on the parallel file system: {}", pfs.display());
        return Err(user(ErrorCode::BadStage, message, "name the whole path, from /"));
    }
    let mut buffer = of_buffer(&pair.buffer)?;
    if request.kind == StageKind::Directory {
        return Ok((buffer, pfs.clone()));
    }
    let is_folder = pair.buffer.is_empty() || pair.buffer.ends_with('/');
    if is_folder && request.direction == Direction::In {
        let name = pfs.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        buffer = if buffer.is_empty() { name.to_owned() } else { format!("{buffer}/{name}") };
    }
    if buffer.is_empty() {
        return Err(user(ErrorCode::BadStage, "the buffer's root is a folder", "stage it as a directory"));
    }
    Ok((buffer, pfs.clone()))
}

/// The same paths in a scope.
///
/// # Errors
/// One leads out of the buffer.
pub(super) fn of_scope(scope: &StageScope) -> Result<StageScope, ApiError> {
    Ok(match scope {
        StageScope::Files(paths) => {
            StageScope::Files(paths.iter().map(|path| of_buffer(path)).collect::<Result<_, _>>()?)
        }
        StageScope::Directory(path) => StageScope::Directory(of_buffer(path)?),
        other => other.clone(),
    })
}

fn of_buffer(path: &str) -> Result<String, ApiError> {
    if path.len() > PATH_MAX {
        let message = format!("a path of {} bytes in the buffer", path.len());
        return Err(user(ErrorCode::StagePath, message, format!("a path has at most {PATH_MAX} bytes")));
    }
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => parts.push(name.to_str().unwrap_or_default()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                let message = format!("the path `{path}` leads out of the buffer");
                return Err(user(
                    ErrorCode::StagePath,
                    message,
                    "name a path below the buffer's root, without `..`",
                ));
            }
        }
    }
    Ok(parts.join("/"))
}

/// The files of a transfer that failed, by their paths in the buffer.
pub(super) fn failures(transfer: &Transfer) -> Vec<FailedStage> {
    let status = transfer.status();
    let own = |errno, message: &str, advice: &str| FailedStage {
        path: transfer.buffer_path.clone(),
        direction: transfer.direction,
        errno,
        message: message.to_owned(),
        advice: advice.to_owned(),
    };
    if status.failures.is_empty() || transfer.kind != StageKind::Directory {
        let first = status.failures.first();
        let said = first.map(|failure| (failure.errno, failure.message.as_str(), failure.advice.as_str()));
        let error = status.error.as_ref().map(|error| (0, error.message.as_str(), error.advice.as_str()));
        let (errno, message, advice) = said.or(error).unwrap_or((0, "it did not end", "start it again"));
        return vec![own(errno, message, advice)];
    }
    let of_file = |failure: &wire::control::FileFailure| {
        let path = in_buffer(transfer, &failure.path).unwrap_or_else(|| transfer.buffer_path.clone());
        FailedStage { path, ..own(failure.errno, &failure.message, &failure.advice) }
    };
    status.failures.iter().map(of_file).collect()
}

/// The path in the buffer of what a failure names, on whichever side.
fn in_buffer(transfer: &Transfer, path: &str) -> Option<String> {
    if let Some(inside) = path.strip_prefix(&transfer.buffer_name()) {
        return Some(inside.trim_start_matches('/').to_owned());
    }
    let below = Path::new(path).strip_prefix(&transfer.pfs_path).ok()?.to_str()?;
    let folder = &transfer.buffer_path;
    Some(match (folder.is_empty(), below.is_empty()) {
        (_, true) => folder.clone(),
        (true, false) => below.to_owned(),
        (false, false) => format!("{folder}/{below}"),
    })
}

/// Whether the source was removed from the buffer after the stage-out was asked for, and has no other name there.
pub(super) fn is_source_removed(transfer: &Transfer) -> bool {
    let error = transfer.report.as_ref().and_then(|report| report.error.as_ref());
    transfer.direction == Direction::Out
        && error.is_some_and(|error| error.code == ErrorCode::StageSourceRemoved)
}

/// Whether the source itself was not found in the buffer. Whether it was removed or has another name, or lies in a
/// folder that has, the path does not tell.
pub(super) fn has_lost_source(transfer: &Transfer) -> bool {
    use rustix::io::Errno;
    use wire::control::Side;
    let of_source = |path: &str| path.trim_end_matches('/') == transfer.source().trim_end_matches('/');
    let mut failures = transfer.report.iter().flat_map(|report| &report.failures);
    transfer.direction == Direction::Out
        && transfer.state == StageState::Failed
        && failures.any(|failure| {
            failure.side == Side::Buffer
                && failure.errno == Errno::NOENT.raw_os_error()
                && of_source(&failure.path)
        })
}
