//! What the other stages of the same job's script have published where this one goes: `stages/7.0/journal` beside
//! `stages/7.1/journal`. They run one after the other, so what is read at the start of one is whole.
//!
//! **Invariant:** what was published is known by its inode, not by its path: a folder may have several, by symbolic
//! links.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use wire::data::Attr;
use wire::node::StageSpec;

use super::record::{Record, StartRecord};
use super::{Finished, Inode, key};
use crate::tree::Found;

/// What siblings have published.
#[derive(Default)]
pub(crate) struct Siblings {
    /// The source of each sibling, for reports.
    sources: Vec<String>,
    /// The number is that of the source.
    files: BTreeMap<Inode, (Finished, usize)>,
}

impl Siblings {
    /// Those of `stage`, whose journal is at `path`. One that cannot be read is left out, and that is logged.
    pub(super) fn of(path: &Path, stage: &StageSpec) -> Siblings {
        let mut siblings = Siblings::default();
        for journal in beside(path, stage).unwrap_or_default() {
            if let Err(error) = siblings.read(&journal, stage) {
                tracing::warn!("read {}: {error}; what it has is not known here", journal.display());
            }
        }
        siblings
    }

    /// Whether none has published anything here.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The source of the sibling that has published what is at `target` now, if not from this very version of this very
    /// file, which is shown as `shown`.
    pub(crate) fn holder(&self, there: &Found, target: &Path, source: &Attr, shown: &str) -> Option<&str> {
        let (done, number) = self.files.get(&Inode::of(there))?;
        let its_source = &self.sources[*number];
        let is_same = (done.size, done.mtime, done.changed)
            == (source.size, source.mtime, Some(source.ctime))
            && goes_there(its_source, Path::new(shown), target);
        (!is_same).then_some(its_source)
    }

    fn read(&mut self, journal: &Path, stage: &StageSpec) -> io::Result<()> {
        let file = match File::open(journal) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        let (mut done, mut published) = (HashMap::new(), HashMap::new());
        // Passes alone prove nothing: the job may take back what they have published.
        let mut source = None;
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            match serde_json::from_slice(&line) {
                Ok(Record::Start(start)) if !may_meet(&start, stage) => return Ok(()),
                Ok(Record::Start(start)) if !start.pass => source = Some(start.source),
                Ok(Record::File(file)) => drop(done.insert(key(&file.target.to_path()), file.done())),
                Ok(Record::Published(there)) => {
                    published.insert(key(&there.path.to_path()), there.inode());
                }
                _ => {}
            }
            line.clear();
        }
        if let Some(source) = source {
            let number = self.sources.len();
            let known =
                done.into_iter().filter_map(|(path, done)| Some((*published.get(&path)?, (done, number))));
            self.files.extend(known);
            self.sources.push(source);
        }
        Ok(())
    }
}

/// The journals of the other stages of the script.
fn beside(path: &Path, stage: &StageSpec) -> Option<Vec<PathBuf>> {
    let (token, number) = stage.id.rsplit_once('.')?;
    // Whoever asks for a stage on demand has chosen its destination since.
    number.parse::<u32>().ok()?;
    let own = path.parent().filter(|folder| folder.file_name().is_some_and(|name| *name == *stage.id))?;
    let is_sibling = |name: &str| {
        let number = name.strip_prefix(token).and_then(|rest| rest.strip_prefix('.'));
        name != stage.id && number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let folders = fs::read_dir(own.parent()?).ok()?.flatten();
    let siblings = folders.filter(|folder| folder.file_name().to_str().is_some_and(is_sibling));
    Some(siblings.map(|folder| folder.path().join("journal")).collect())
}

/// Whether both may publish one path: one destination is the other, or below it, or a list names them.
fn may_meet(other: &StartRecord, stage: &StageSpec) -> bool {
    let is_list = |source: &str, destination: &str| source == destination;
    let (there, here) = (real(Path::new(&other.destination)), real(Path::new(&stage.destination)));
    is_list(&other.source, &other.destination)
        || is_list(&stage.source, &stage.destination)
        || there.starts_with(&here)
        || here.starts_with(&there)
}

/// Whether a stage of `source` gives the file that is shown as `file` the name `target`: files that were made at the
/// same moment may have the same size and times.
fn goes_there(source: &str, file: &Path, target: &Path) -> bool {
    // `${DW_JOB_STRIPED}a` is `$DW_JOB_STRIPED/a`.
    let source = match source.strip_prefix("${") {
        Some(rest) => format!("${}", rest.replacen('}', "/", 1)),
        None => source.to_owned(),
    };
    file.strip_prefix(source).is_ok_and(|below| target.ends_with(below))
}

/// A path without symbolic links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match found {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}
