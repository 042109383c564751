//! stage_in and stage_out: one side on the PFS, the other in a buffer, and never the wrong way round.

use super::lines::{Statement, Word};
use super::options::{Known, Options};
use super::paths::check_pfs_path;
use super::values::stage_type;
use super::{BufferPath, Directive, Stage, parse_buffer_path};
use crate::phase::{Direction, StageKind};

const STAGE: Known = Known { options: &["type", "source", "destination"], kept: &[], rare: &[], plain: None };

/// Reads the directive, unless the options note why not.
pub(super) fn read(
    direction: Direction,
    keyword: &Word,
    statement: &Statement,
) -> (Option<Directive>, Options) {
    let mut options = Options::read(keyword, statement, &STAGE);
    let kind = options.require("type", "type=file, type=directory or type=list").and_then(|word| {
        let kind = stage_type(&word.text);
        options.note(&word, kind)
    });
    let stage = match kind {
        Some(StageKind::List) => list(&mut options),
        kind => copy(direction, kind, &mut options),
    };
    let directive = stage.map(match direction {
        Direction::In => Directive::StageIn,
        Direction::Out => Directive::StageOut,
    });
    (directive, options)
}

/// A list has a source only: its lines name the files and where they go.
fn list(options: &mut Options) -> Option<Stage> {
    if let Some(destination) = options.get("destination") {
        let message = "type=list takes no destination=; each line of the list has its own, after the source";
        options.error(destination.place, message.to_owned());
    }
    let source = options.require("source", "source=/scratch/list.txt")?;
    options.note(&source, check_pfs_path(&source.text))?;
    if source.text.ends_with('/') {
        options.error(source.place, format!("`{}` must name a file, the list", source.text));
    }
    Some(Stage {
        kind: StageKind::List,
        source: source.text.clone(),
        destination: source.text.clone(),
        pfs: source.text,
        buffer: None,
    })
}

/// A file or a directory; of an unknown kind only the paths are checked.
fn copy(direction: Direction, kind: Option<StageKind>, options: &mut Options) -> Option<Stage> {
    let (source_example, destination_example) = match direction {
        Direction::In => ("source=/scratch/input", "destination=$DW_JOB_STRIPED/input"),
        Direction::Out => ("source=$DW_JOB_STRIPED/results", "destination=/scratch/results"),
    };
    let source = options.require("source", source_example);
    let destination = options.require("destination", destination_example);
    let (source, destination) = (source?, destination?);
    let (pfs, buffer) = match direction {
        Direction::In => (&source, &destination),
        Direction::Out => (&destination, &source),
    };
    if parse_buffer_path(&pfs.text).is_some() && parse_buffer_path(&buffer.text).is_none() {
        options.error(source.place, swapped(direction));
        return None;
    }
    let pfs_is_good = options.note(pfs, check_pfs_path(&pfs.text));
    let path = options.note(buffer, buffer_path(&buffer.text));
    if kind == Some(StageKind::File) {
        check_source_is_a_file(&source, options);
    }
    pfs_is_good?;
    Some(Stage {
        kind: kind?,
        source: source.text.clone(),
        destination: destination.text.clone(),
        pfs: pfs.text.clone(),
        buffer: Some(path?),
    })
}

fn buffer_path(text: &str) -> Result<BufferPath, String> {
    parse_buffer_path(text).unwrap_or_else(|| {
        Err(format!("`{text}` is not in a buffer; expected a path such as $DW_JOB_STRIPED/name"))
    })
}

/// The source of type=file must name the file. A destination that is a directory gets the file under the same name, as
/// NERSC's published examples use it (`destination=$DW_JOB_STRIPED/ type=file`).
fn check_source_is_a_file(source: &Word, options: &mut Options) {
    let is_root =
        parse_buffer_path(&source.text).is_some_and(|path| path.is_ok_and(|path| path.path.is_empty()));
    if source.text.ends_with('/') || is_root {
        let message = format!(
            "`{}` must name a file because of type=file; add its name, or use type=directory",
            source.text
        );
        options.error(source.place, message);
    }
}

fn swapped(direction: Direction) -> String {
    match direction {
        Direction::In => {
            "source and destination are swapped: stage_in copies from the parallel file system (source) \
                          into the buffer (destination)"
        }
        Direction::Out => {
            "source and destination are swapped: stage_out copies from the buffer (source) to the \
                           parallel file system (destination)"
        }
    }
    .to_owned()
}
