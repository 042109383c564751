//! Log lines on standard error, which a daemon's starter appends to its log file.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tracing::Level;

/// The environment variable that chooses the level: `error`, `warn`, `info` or `debug`.
pub const LEVEL_VARIABLE: &str = "FOREBAY_LOG";

/// How much of a log's end is looked at.
const TAIL_BYTES: u64 = 64 << 10;

/// Sends log lines to standard error, without colours, from the level in `FOREBAY_LOG` up (default `info`).
///
/// A second call in one process changes nothing.
pub fn init() {
    let wanted = std::env::var(LEVEL_VARIABLE).ok();
    let level = level(wanted.as_deref()).unwrap_or(Level::INFO);
    // An error here means that a subscriber is installed already: the lines go there.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(level)
        .with_target(false)
        // It would be told on standard error, too, whose failure is a panic: a full disk must not end our threads.
        .log_internal_errors(false)
        .try_init();
    if let Some(remark) = unknown_level() {
        tracing::warn!("{remark}");
    }
}

/// What is to be said where `FOREBAY_LOG` has no level.
pub fn unknown_level() -> Option<String> {
    let wanted = std::env::var_os(LEVEL_VARIABLE)?;
    let is_level = wanted.to_str().is_some_and(|wanted| level(Some(wanted)).is_some());
    (!is_level).then(|| {
        format!(
            "{LEVEL_VARIABLE}={} is not a level (error, warn, info, debug); info is logged",
            wanted.display()
        )
    })
}

/// What a process that has ended said last, from its log, without time and level; `None` if that was nothing, or
/// routine, which says nothing of the end.
pub fn last_words(log: &Path) -> Option<String> {
    let mut file = disk::regular::open(log, OFlags::RDONLY, Mode::empty()).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    if let Some(error) = error_of_main(&text) {
        return Some(error);
    }
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let at_level = |level: Level| {
        let (time, said) = line.split_once(&format!(" {level} "))?;
        time.trim_end().ends_with('Z').then_some((level, said))
    };
    match [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG].into_iter().find_map(at_level) {
        Some((level, said)) if level <= Level::WARN => Some(said.to_owned()),
        Some(_) => None,
        None => Some(line.to_owned()),
    }
}

/// What `main` returned, in one line, where that is the last that was said: `anyhow` prints an error with its causes
/// below it, and then where it was, if the environment asks for that.
fn error_of_main(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().rposition(|line| line.starts_with("Error: "))?;
    let mut said = vec![lines[begin].trim_start_matches("Error: ").trim()];
    let below = lines[begin + 1..].iter().take_while(|line| !line.starts_with("Stack backtrace:"));
    for line in below.filter(|line| !line.trim().is_empty() && **line != "Caused by:") {
        // Of another process, which took its place.
        let cause = line.strip_prefix("    ")?.trim();
        let number = cause.find(": ").filter(|end| cause[..*end].bytes().all(|byte| byte.is_ascii_digit()));
        said.push(number.map_or(cause, |end| &cause[end + 2..]));
    }
    Some(said.join(": "))
}

/// `None`: it is no level.
fn level(wanted: Option<&str>) -> Option<Level> {
    match wanted {
        Some("error") => Some(Level::ERROR),
        Some("warn") => Some(Level::WARN),
        Some("debug") => Some(Level::DEBUG),
        None | Some("" | "info") => Some(Level::INFO),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_info_unless_a_known_one_is_named() {
        assert_eq!(level(None), Some(Level::INFO));
        assert_eq!(level(Some("warn")), Some(Level::WARN));
        assert_eq!(level(Some("loud")), None);
    }

    #[test]
    fn the_last_words_are_no_routine_and_without_time_and_level() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let says = |text: &str| {
            std::fs::write(log.path(), text).unwrap();
            last_words(log.path())
        };
        assert_eq!(says("2026-11-22T14:57:03Z ERROR it ends\n\n").as_deref(), Some("it ends"));
        assert_eq!(says("killed while it was INFO to me").as_deref(), Some("killed while it was INFO to me"));
        assert_eq!(says("2026-11-22T14:57:03Z ERROR it ends\n2026-11-22T14:57:04Z  INFO it runs\n"), None);
        assert_eq!(says("\n"), None);
    }

    #[test]
    fn of_an_error_of_main_the_last_words_are_what_failed_and_why_and_not_where() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let says = |text: &str| {
            std::fs::write(log.path(), text).unwrap();
            last_words(log.path())
        };
        let before = "2026-11-22T14:57:03Z  INFO it begins\n";
        let two = "Error: read the journal\n\nCaused by:\n    0: it is damaged\n    1: at byte 7: bad\n";
        let wanted = Some("read the journal: it is damaged: at byte 7: bad");
        assert_eq!(says(&format!("{before}{two}")).as_deref(), wanted);
        let where_it_was =
            "\nStack backtrace:\n   0: anyhow::error\n             at ./main.rs:3\n  19: _start\n";
        assert_eq!(says(&format!("{before}{two}{where_it_was}")).as_deref(), wanted);
        let one = "Error: connect\n\nCaused by:\n    refused (os error 111)\n";
        assert_eq!(says(one).as_deref(), Some("connect: refused (os error 111)"));
        assert_eq!(says(&format!("{one}{before}")), None, "another process took its place");
    }
}
