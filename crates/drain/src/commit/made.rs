//! What commits have made, whichever job's: a line for each in files beside the sessions' folders, before it has its
//! name.
//!
//! ```text
//! latest.links, committed.markers := ({"since":stamp} | {"ino":number,...})*      `since`: nothing was noted before
//! ```

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use disk::below::Root;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::plain;
use crate::generation::{Seen, Stamp, find};
use crate::placed::Placed;

/// Those of one kind.
pub(super) struct Made {
    file: PathBuf,
}

/// When the first was noted, by the PFS's clock.
#[derive(Serialize, Deserialize)]
struct Begin {
    since: Stamp,
}

impl Made {
    /// Links to what was committed last, as noted in this folder.
    pub(super) fn links(folder: &Path) -> Made {
        Made { file: folder.join("latest.links") }
    }

    /// Markers.
    pub(super) fn markers(folder: &Path) -> Made {
        Made { file: folder.join("committed.markers") }
    }

    /// Notes one that is about to get its name.
    pub(super) fn note(&self, seen: &Seen) -> io::Result<()> {
        let begin = match disk::exists(&self.file)? {
            true => String::new(),
            false => serde_json::to_string(&Begin { since: seen.generation.ctime })?,
        };
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let folder = self.file.parent().unwrap_or(&self.file);
        let mut file = Root::at(folder).open_file(&self.file, flags, Mode::from_raw_mode(0o666))?;
        // A line's end first: the last may be cut off.
        let line = serde_json::to_string(&Placed::before(seen))?;
        file.write_all(format!("\n{begin}\n{line}\n").as_bytes())?;
        file.sync_all()
    }

    /// Whether a commit has made the link; `None`: there is none. Of before there were notes, it leads to what has a
    /// marker.
    pub(super) fn has_link(&self, root: &Root, link: &Path) -> io::Result<Option<bool>> {
        let Some(leads_to) = disk::if_there(std::fs::read_link(link))? else { return Ok(None) };
        self.has(root, link, || {
            let name = leads_to.to_str().and_then(plain).filter(|name| Path::new(name) == leads_to);
            let marker = name.map(|name| is_marker(&root.path().join(format!("{name}.committed"))));
            Ok(marker.transpose()?.flatten() == Some(true))
        })
    }

    /// Whether a commit has made the marker; `None`: there is none. Of before there were notes, it looks like one.
    pub(super) fn has_marker(&self, root: &Root, file: &Path) -> io::Result<Option<bool>> {
        let Some(is_marker) = is_marker(file)? else { return Ok(None) };
        self.has(root, file, || Ok(is_marker))
    }

    /// Whether what is at `path` is noted, or is from before there were notes and looks like a commit's.
    fn has(
        &self,
        root: &Root,
        path: &Path,
        looks_so: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<Option<bool>> {
        let Some(seen) = find(root, path)? else { return Ok(None) };
        let Some(text) = disk::read(&self.file)? else { return looks_so().map(Some) };
        let lines = || text.split(|byte| *byte == b'\n');
        let mut notes = lines().filter_map(|line| serde_json::from_slice::<Placed>(line).ok());
        if notes.any(|note| note.differs(&seen).is_none()) {
            return Ok(Some(true));
        }
        let since = lines().filter_map(|line| serde_json::from_slice::<Begin>(line).ok()).map(|it| it.since);
        let is_earlier = since.min().is_some_and(|since| seen.generation.ctime < since);
        Ok(Some(is_earlier && looks_so()?))
    }
}

/// Whether the file looks like a commit's; `None`: there is none.
fn is_marker(file: &Path) -> io::Result<Option<bool>> {
    let Some(text) = disk::read(file)? else { return Ok(None) };
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(Some(value.is_some_and(|value| value["committed"].is_string())))
}
