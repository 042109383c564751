//! List files: read from the PFS, checked to their last line before the first file is staged.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use model::Ino;
use model::directive::{ListEntry, parse_list_line};
use model::phase::{Direction, StageKind};
use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::StageSpec;

use super::{Named, Planner};
use crate::fault::{Cause, Fault};
use crate::pfs::{self, Pfs};

impl Planner<'_> {
    /// Queues every line of the list file.
    pub(super) fn list(&mut self, spec: &StageSpec) -> Result<(), ApiError> {
        for pair in &spec.pairs {
            self.line(spec, (&Named::pfs(&pair.pfs), &Named::buffer(&pair.buffer)?), pair.ino);
        }
        if !spec.pairs.is_empty() {
            return Ok(());
        }
        let mut lines_by_target = HashMap::new();
        read(spec, |line, entry| {
            check(spec, &entry).map_err(|why| mistake(spec, line, &why))?;
            match lines_by_target.insert(target_key(spec, &entry), line) {
                None => Ok(()),
                Some(first) => {
                    Err(mistake(spec, line, &format!("the destination is that of line {first} already")))
                }
            }
        })?;
        drop(lines_by_target);
        read(spec, |_, entry| {
            let (pfs, buffer) = (Named::pfs(Path::new(&entry.pfs)), Named::buffer(&entry.buffer.path)?);
            self.line(spec, (&pfs, &buffer), None);
            Ok(())
        })
    }

    /// Queues one file of a list.
    fn line(&mut self, spec: &StageSpec, (pfs, buffer): (&Named, &Named), ino: Option<Ino>) {
        let (source, target) = match spec.direction {
            Direction::In => (pfs, buffer),
            Direction::Out => (buffer, pfs),
        };
        if let Err(fault) = self.file(source, target, ino) {
            self.run.monitor.found(0);
            super::count_missing(self.run, &fault);
            self.run.fail(&fault);
        }
    }
}

/// The folders of the PFS that the lines of the list file name; none where they have a mistake, or there is no such
/// file.
pub(crate) fn folders(spec: &StageSpec) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    if spec.kind == StageKind::List && spec.pairs.is_empty() {
        let above = |entry: ListEntry| Path::new(&entry.pfs).parent().map(Path::to_owned);
        let read = read(spec, |_, entry| {
            folders.extend(above(entry));
            Ok(())
        });
        // Whoever stages them says why.
        return read.map(|()| folders).unwrap_or_default();
    }
    folders
}

fn read(
    spec: &StageSpec,
    mut take: impl FnMut(u64, ListEntry) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let refused = |operation| {
        move |error| {
            let cause = Cause::Refused(pfs::errno(error));
            let fault = Fault::new(&Pfs::default(), &spec.pfs_path, operation, cause);
            ApiError { code: ErrorCode::StageList, ..fault.stage_error(Direction::In) }
        }
    };
    let mut reader = BufReader::new(File::open(&spec.pfs_path).map_err(refused("open list file"))?);
    let (mut bytes, mut line) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut bytes).map_err(refused("read list file"))? > 0 {
        line += 1;
        let text = std::str::from_utf8(&bytes).map_err(|_| mistake(spec, line, "it is not UTF-8 text"))?;
        match parse_list_line(text.trim_end_matches(['\n', '\r']), spec.direction) {
            None => {}
            Some(Ok(entry)) => take(line, entry)?,
            Some(Err(error)) => return Err(mistake(spec, line, &error.to_string())),
        }
        bytes.clear();
    }
    Ok(())
}

fn check(spec: &StageSpec, entry: &ListEntry) -> Result<(), String> {
    let root = entry.buffer.root.to_string();
    if root == spec.buffer_name.trim_end_matches('/') {
        return Ok(());
    }
    Err(format!("{root} is not the buffer of this stage; expected {}", spec.buffer_name))
}

/// A hash of a line's destination: a list may be long.
fn target_key(spec: &StageSpec, entry: &ListEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    match spec.direction {
        // As paths: without empty and `.` components.
        Direction::In => Path::new(&entry.buffer.path).hash(&mut hasher),
        Direction::Out => Path::new(&entry.pfs).hash(&mut hasher),
    }
    hasher.finish()
}

fn mistake(spec: &StageSpec, line: u64, why: &str) -> ApiError {
    ApiError {
        code: ErrorCode::StageList,
        blame: Blame::User,
        message: format!("list file {}, line {line}: {why}", spec.pfs_path.display()),
        advice: "correct that line; nothing was staged".to_owned(),
    }
}
