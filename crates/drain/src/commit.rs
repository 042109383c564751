//! The end of a commit: the marker of a group that is whole, and the link to the last one.
//!
//! **Invariant:** what a commit replaces is what it has looked at, and an earlier commit's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};

use disk::below::{Place, Root, by_descriptor};
use rustix::fs::{AtFlags, Mode, OFlags, symlinkat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use stage::single::TAKEN_SUFFIX;

use crate::generation::{Seen, find, if_there, look, look_in, now};
use crate::namesake::{machine, short_hash};
use crate::placed::Placed;
use crate::rendezvous::{Rendezvous, path_in};
use crate::status::Answer;

/// The name of the link to the last group that was committed.
pub const LATEST: &str = "latest";

/// The name of a group, written one way; `None` where it is none below a folder.
pub fn plain(name: &str) -> Option<String> {
    let parts: PathBuf = Path::new(name).components().collect();
    let is_plain = parts.components().all(|part| matches!(part, Component::Normal(_)));
    parts.into_os_string().into_string().ok().filter(|name| is_plain && !name.is_empty())
}

/// A marker: everything of this name is on the PFS, of all nodes.
#[derive(Debug, Serialize)]
struct Marker<'a> {
    name: &'a str,
    committed: String,
    hosts: Vec<&'a str>,
    files: usize,
}

/// Which links `latest` are of commits, whichever job's: a line for each in a file beside the sessions' folders.
struct Links {
    file: PathBuf,
}

impl Links {
    fn of(folder: &Path) -> Links {
        Links { file: folder.join("latest.links") }
    }

    /// Notes one that is about to get its name.
    fn note(&self, link: &Seen) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let folder = self.file.parent().unwrap_or(&self.file);
        let mut file = Root::at(folder).open_file(&self.file, flags, Mode::from_raw_mode(0o666))?;
        // A line's end first: the last may be cut off.
        file.write_all(format!("\n{}\n", serde_json::to_string(&Placed::before(link))?).as_bytes())?;
        file.sync_all()
    }

    /// Notes the link of a commit that noted nothing: the next note is the first.
    fn take_over(&self, to: &Path, link: &Path) -> io::Result<()> {
        match find(&Root::at(to), link)? {
            Some(seen) if !disk::exists(&self.file)? => self.note(&seen),
            _ => Ok(()),
        }
    }

    /// Whether a commit has made this link; `None`: there is none. Of before there were notes, it leads to what has a
    /// marker.
    fn have_made(&self, to: &Path, link: &Path) -> io::Result<Option<bool>> {
        let Some(leads_to) = disk::if_there(std::fs::read_link(link))? else { return Ok(None) };
        let seen = look(&Root::at(to), link)?;
        let Some(text) = disk::read(&self.file)? else {
            let name = leads_to.to_str().and_then(plain).filter(|name| Path::new(name) == leads_to);
            let marker = name.map(|name| is_marker(&to.join(format!("{name}.committed"))));
            return Ok(Some(marker.transpose()?.flatten() == Some(true)));
        };
        let notes = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        Ok(Some(notes.into_iter().any(|note: Placed| note.differs(&seen).is_none())))
    }
}

/// Whether the file is a commit's; `None`: there is none.
fn is_marker(file: &Path) -> io::Result<Option<bool>> {
    let Some(text) = disk::read(file)? else { return Ok(None) };
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(Some(value.is_some_and(|value| value["committed"].is_string())))
}

/// What a commit is about to replace is of an earlier one: the job may have drained a file of that name.
fn must_be_of_a_commit(path: &Path, found: io::Result<Option<bool>>) -> io::Result<()> {
    match found {
        Ok(Some(true) | None) => Ok(()),
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::IsADirectory) => {
            Err(error)
        }
        _ => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!("{} is there, and no commit has made it", path.display()),
        )),
    }
}

/// It may look like a commit's, and a drainer of the job owes the file there.
fn must_not_be_drained(rendezvous: &Path, to: &Path, path: &Path) -> io::Result<()> {
    if disk::if_there(std::fs::symlink_metadata(path))?.is_none() {
        return Ok(());
    }
    let name = path.strip_prefix(to).map_or_else(|_| path.to_owned(), Path::to_owned);
    let target = to.canonicalize()?.join(name);
    let files = Rendezvous::new(rendezvous.to_owned()).files()?;
    let is_it = |line: &serde_json::Value| {
        matches!(line["event"].as_str(), Some("done" | "kept")) && path_in(line, "target") == target
    };
    if !files.values().any(is_it) {
        return Ok(());
    }
    let text = format!("{} is there, and the job has drained it", path.display());
    Err(io::Error::new(ErrorKind::AlreadyExists, text))
}

/// Publishes that the group `name` is whole: the file `TO/NAME.committed`, and the link `TO/latest` if there is a
/// `TO/NAME`. Call it only after all answers were whole, of the drainers that meet in `rendezvous`. Returns what was
/// made.
///
/// # Errors
/// The PFS's. ALREADY_EXISTS where what it would replace is not of a commit, INVALID_INPUT for no name
/// ([`plain`]), or the link's.
pub fn commit(rendezvous: &Path, to: &Path, name: &str, answers: &[Answer]) -> io::Result<Vec<PathBuf>> {
    let name = &*plain(name).filter(|name| name != LATEST).ok_or(ErrorKind::InvalidInput)?;
    let (file, latest) = (to.join(format!("{name}.committed")), to.join(LATEST));
    let may_be_replaced = |path: &Path, found| {
        must_be_of_a_commit(path, found)?;
        must_not_be_drained(rendezvous, to, path)
    };
    let file_may = || may_be_replaced(&file, is_marker(&file));
    let links = Links::of(rendezvous.parent().unwrap_or(rendezvous));
    let latest_may = || may_be_replaced(&latest, links.have_made(to, &latest));
    let is_there = disk::exists(&to.join(name))?;
    // Neither where only one may.
    file_may()?;
    if is_there {
        latest_may().and_then(|()| links.take_over(to, &latest))?;
    }
    let root = Root::hold(to)?;
    let (place, above) = (root.reach(&file)?, root.reach(&latest)?);
    let draft = draft(name);
    // Also where a commit was killed that had made the link below: nothing is written to what it leads to.
    let made = place.create(&draft).and_then(|mut file| {
        file.write_all(&text(name, answers)?)?;
        file.sync_all()
    });
    put(&place, &draft, made, file_may)?;
    let mut made = vec![file.clone()];
    if is_there {
        // What a commit left that was killed in between.
        let _ = unlinkat(&above.folder, &draft, AtFlags::empty());
        let linked = symlinkat(name, &above.folder, &draft).map_err(io::Error::from);
        let linked = linked.and_then(|()| links.note(&look_in(above.folder.as_fd(), &draft)?));
        put(&above, &draft, linked, latest_may)?;
        made.push(latest.clone());
    }
    // A group may be in a folder below.
    for folder in [&place.folder, &above.folder] {
        File::open(by_descriptor(folder))?.sync_all()?;
    }
    Ok(made)
}

fn text(name: &str, answers: &[Answer]) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Marker {
        name,
        committed: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        hosts: answers.iter().map(|answer| answer.host.as_str()).collect(),
        files: answers.iter().map(|answer| answer.landed).sum(),
    })?;
    text.push(b'\n');
    Ok(text)
}

/// Several may publish one name at once.
fn draft(name: &str) -> OsString {
    let who = short_hash(&(machine(), std::process::id()));
    // Of any length, and below any folders.
    format!(".{:08x}.{who:08x}.committing", short_hash(&name)).into()
}

/// Gives the draft that was `made` its name, or removes it. Others may commit meanwhile: what they put there is looked
/// at by `may_be_replaced`, as what was there before.
fn put(
    place: &Place,
    draft: &OsStr,
    made: io::Result<()>,
    may_be_replaced: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let aside: OsString = format!("{}.{}{TAKEN_SUFFIX}", draft.to_string_lossy(), now().1).into();
    let put = || -> io::Result<()> {
        loop {
            let before = if_there(look_in(place.folder.as_fd(), &place.name))?;
            may_be_replaced()?;
            let put = match before {
                None => place.fill_with(draft),
                Some(before) => {
                    let is_it =
                        |folder: BorrowedFd<'_>, name: &OsStr| Ok(look_in(folder, name)?.is_still(&before));
                    place.displace_with(draft, &aside, is_it)
                }
            };
            match put {
                Err(_) if if_there(look_in(place.folder.as_fd(), &aside))?.is_some() => {
                    return Err(io::Error::other(format!(
                        "what had the name {} could not get it back, and is {} beside it",
                        place.name.display(),
                        aside.display()
                    )));
                }
                Err(Errno::EXIST) => {}
                put => return Ok(put?),
            }
        }
    };
    made.and_then(|()| put()).inspect_err(|_| {
        let _ = unlinkat(&place.folder, draft, AtFlags::empty());
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_comes_to_the_name_of_a_marker_after_it_was_looked_at_stays() {
        for there in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let [name, draft] = ["a.committed", "draft"].map(|name| folder.path().join(name));
            if there {
                std::fs::write(&name, "of a commit").unwrap();
            }
            std::fs::write(&draft, "{}").unwrap();
            let place = Root::hold(folder.path()).unwrap().reach(Path::new("a.committed")).unwrap();
            let looks = Cell::new(0);
            let may_be_replaced = || {
                looks.set(looks.get() + 1);
                if looks.get() > 1 {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                let other = folder.path().join("other");
                std::fs::write(&other, "somebody's").and_then(|()| std::fs::rename(&other, &name))
            };
            put(&place, OsStr::new("draft"), Ok(()), may_be_replaced).unwrap_err();
            assert_eq!(std::fs::read_to_string(&name).unwrap(), "somebody's");
            assert!(!disk::exists(&draft).unwrap());
        }
    }
}
