//! The end of a commit: the marker of a group that is whole, and the link to the last one.
//!
//! **Invariant:** what a commit replaces is what it has looked at, and an earlier commit's.

mod made;
mod moved;
mod under_way;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use disk::below::{Place, Root, by_descriptor};
use rustix::fs::{AtFlags, symlinkat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;

use self::made::Made;
use self::under_way::UnderWay;
pub(crate) use self::under_way::settle as settle_killed;
use crate::generation::{if_there, look_in};
use crate::namesake::{machine, short_hash};
use crate::placed::Unnoted;
use crate::rendezvous::{Rendezvous, path_in};
use crate::status::Answer;
use crate::taken::{Taken, aside};

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
/// The PFS's, also where a commit was killed that has left something of somebody's. ALREADY_EXISTS where what it would
/// replace is not of a commit, INVALID_INPUT for no name ([`plain`]), or the link's.
pub fn commit(rendezvous: &Path, to: &Path, name: &str, answers: &[Answer]) -> io::Result<Vec<PathBuf>> {
    let name = &*plain(name).filter(|name| name != LATEST).ok_or(ErrorKind::InvalidInput)?;
    let (root, folder) = (Root::hold(to)?, rendezvous.parent().unwrap_or(rendezvous));
    nothing_is_left(folder, &to.canonicalize()?)?;
    let marker = format!("{name}.committed");
    let (file, latest) = (to.join(&marker), to.join(LATEST));
    let may_be_replaced = |path: &Path, found| {
        must_be_of_a_commit(path, found)?;
        must_not_be_drained(rendezvous, to, path)
    };
    let (markers, links) = (Made::markers(folder), Made::links(folder));
    let file_may = || may_be_replaced(&file, markers.has_marker(&root, &file));
    let latest_may = || may_be_replaced(&latest, links.has_link(&root, &latest));
    let is_there = disk::exists(&to.join(name))?;
    // Neither where only one may.
    file_may()?;
    if is_there {
        latest_may()?;
    }
    let (place, above) = (root.reach(&file)?, root.reach(&latest)?);
    let draft = draft(name);
    let names = [(&place, Path::new(&marker)), (&above, Path::new(LATEST))];
    let under_way = UnderWay::begin(folder, &draft, &names)?;
    put(&place, &draft, make_marker(&place, &draft, &text(name, answers)?, &markers), file_may)?;
    let mut made = vec![file.clone()];
    if is_there {
        put(&above, &draft, make_link(&above, &draft, name, &links), latest_may)?;
        made.push(latest.clone());
    }
    // A group may be in a folder below.
    for folder in [&place.folder, &above.folder] {
        File::open(by_descriptor(folder))?.sync_all()?;
    }
    under_way.end()?;
    Ok(made)
}

fn make_marker(place: &Place, draft: &OsStr, text: &[u8], markers: &Made) -> io::Result<()> {
    let mut file = place.create(draft)?;
    file.write_all(text)?;
    file.sync_all()?;
    markers.note(&look_in(place.folder.as_fd(), draft)?)
}

fn make_link(above: &Place, draft: &OsStr, name: &str, links: &Made) -> io::Result<()> {
    // A draft of this process's that could not be removed.
    let _ = unlinkat(&above.folder, draft, AtFlags::empty());
    symlinkat(name, &above.folder, draft)?;
    links.note(&look_in(above.folder.as_fd(), draft)?)
}

/// Where no drainer runs any more, nobody else has told of it.
fn nothing_is_left(folder: &Path, to: &Path) -> io::Result<()> {
    let taken = Taken::of(to, Arc::new(Unnoted));
    under_way::settle(folder, &Root::at(to), &taken)?;
    match taken.troubles().first() {
        Some(trouble) => Err(io::Error::other(format!("{}; {}", trouble.message, trouble.advice))),
        None => Ok(()),
    }
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
    let put = || -> io::Result<()> {
        let ours = look_in(place.folder.as_fd(), draft)?;
        loop {
            let before = if_there(look_in(place.folder.as_fd(), &place.name))?;
            may_be_replaced()?;
            // Whoever finds it after a kill knows by that what may go.
            let aside = aside(draft, &ours, before.as_ref().unwrap_or(&ours), &place.name);
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
