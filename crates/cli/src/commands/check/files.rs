//! The files that a script's stages name, as this user sees them here: sources that are not there, and places where
//! nothing can be made.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use model::directive::{self, Directive, ListEntry, Located, Stage, parse_list_line};
use model::phase::{Direction, StageKind};
use rustix::fs::{Access, access};

use super::Mistake;
use crate::exit_code::ExitCode;
use crate::script::UNKNOWN;

/// Whoever sees that many of one list needs no more of them.
const OF_A_LIST_MAX: usize = 100;

/// Everything that is wrong with them; `place` says where what stands in a line was asked for.
pub(super) fn mistakes(directives: &directive::Script, place: impl Fn(u32) -> String) -> Vec<Mistake> {
    let of = |located: &Located| {
        let found = match &located.directive {
            // Where the job's number is in it, nobody knows yet what is meant.
            Directive::StageIn(stage) if stage.pfs.contains(UNKNOWN) => Vec::new(),
            Directive::StageIn(stage) if stage.kind == StageKind::List => of_list(stage, Direction::In),
            Directive::StageOut(stage) if stage.kind == StageKind::List => of_list(stage, Direction::Out),
            Directive::StageIn(stage) => source(Path::new(&stage.pfs), stage.kind).into_iter().collect(),
            Directive::StageOut(stage) => target(Path::new(&stage.pfs), stage.kind).into_iter().collect(),
            _ => Vec::new(),
        };
        let place = place(located.line);
        found
            .into_iter()
            .map(move |mistake| Mistake { text: format!("{place}: {}", mistake.text), ..mistake })
    };
    directives.directives.iter().flat_map(of).collect()
}

fn unreadable(path: &Path, error: &io::Error) -> Mistake {
    Mistake {
        exit: ExitCode::NoInput,
        text: format!("source {}: {error}; correct the path, or make it readable", path.display()),
    }
}

fn wrong(text: String) -> Mistake {
    Mistake { exit: ExitCode::Script, text }
}

/// What is to be staged in.
fn source(path: &Path, kind: StageKind) -> Option<Mistake> {
    // What is neither is not opened: a pipe would wait for who writes to it.
    let look = || -> io::Result<Option<bool>> {
        let found = path.metadata()?;
        match (found.is_dir(), found.is_file()) {
            (true, _) => fs::read_dir(path).map(|_| Some(true)),
            (_, true) => File::open(path).map(|_| Some(false)),
            _ => Ok(None),
        }
    };
    let is_folder = match look() {
        Err(error) => return Some(unreadable(path, &error)),
        Ok(None) => {
            let shown = path.display();
            return Some(wrong(format!(
                "source {shown} is neither a file nor a directory; name what can be copied"
            )));
        }
        Ok(Some(is_folder)) => is_folder,
    };
    match (is_folder, kind) {
        (false, StageKind::Directory) => {
            Some(wrong(format!("source {} is not a directory; write type=file", path.display())))
        }
        (true, StageKind::File | StageKind::List) => {
            Some(wrong(format!("source {} is a directory; write type=directory", path.display())))
        }
        _ => None,
    }
}

/// Where something is to be staged out to: there, or in the nearest folder above it, this user must be able to make
/// files.
fn target(path: &Path, kind: StageKind) -> Option<Mistake> {
    let shown = path.display();
    if kind == StageKind::Directory && disk::is_file(path).unwrap_or(false) {
        return Some(wrong(format!("destination {shown} is a file, and a directory is to go there")));
    }
    let folder = path.ancestors().find(|above| disk::is_folder(above).unwrap_or(false))?;
    let between = path.strip_prefix(folder).ok()?.components().next().map(|first| folder.join(first));
    let is_in_the_way = |first: &std::path::PathBuf| first != path && disk::exists(first).unwrap_or(false);
    if let Some(first) = between.filter(is_in_the_way) {
        return Some(wrong(format!("destination {shown}: {} is not a folder", first.display())));
    }
    let refused = access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
    let error = io::Error::from(refused);
    Some(wrong(format!(
        "destination {shown}: make files in {}: {error}; name a folder of yours, or ask its owner",
        folder.display()
    )))
}

fn of_list(stage: &Stage, direction: Direction) -> Vec<Mistake> {
    let path = Path::new(&stage.pfs);
    if let Some(mistake) = source(path, StageKind::List) {
        // That of a stage-out may be made by the job.
        return if direction == Direction::In { vec![mistake] } else { Vec::new() };
    }
    let lines = match File::open(path) {
        Ok(file) => BufReader::new(file).lines(),
        Err(error) => return vec![unreadable(path, &error)],
    };
    let of = |(number, line): (u64, io::Result<String>)| {
        let mistake = match line {
            Err(error) => Some(unreadable(path, &error)),
            Ok(line) => match parse_list_line(&line, direction)? {
                Err(error) => Some(wrong(error.to_string())),
                Ok(entry) => file_of(&entry, direction),
            },
        }?;
        Some(Mistake { text: format!("{}: line {number}: {}", path.display(), mistake.text), ..mistake })
    };
    (1..).zip(lines).filter_map(of).take(OF_A_LIST_MAX).collect()
}

fn file_of(entry: &ListEntry, direction: Direction) -> Option<Mistake> {
    match direction {
        Direction::In => source(Path::new(&entry.pfs), StageKind::File),
        Direction::Out => target(Path::new(&entry.pfs), StageKind::File),
    }
}
