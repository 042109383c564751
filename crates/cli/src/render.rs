//! Numbers and names as people read them.

use std::path::Path;
use std::time::Duration;

use model::phase::{AccessMode, Function, Phase};
use wire::control::{InstanceStatus, VolumeKind};

/// Bytes, to one decimal.
pub fn bytes(count: u64) -> String {
    model::size::display(count)
}

/// What is in a buffer, as far as all of its parts have said.
pub fn used(instance: &InstanceStatus) -> String {
    let all_said = instance.intact.is_some() && instance.unserved.is_empty();
    if all_said { bytes(instance.used_bytes) } else { at_least(instance.used_bytes) }
}

/// Bytes where not everybody has said, or not of now.
pub fn at_least(count: u64) -> String {
    if count == 0 { "an unknown amount".to_owned() } else { format!("at least {}", bytes(count)) }
}

/// Bytes in a second.
pub fn rate(bytes_per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people; saturates")]
    let whole = bytes_per_second.max(0.0) as u64;
    format!("{}/s", bytes(whole))
}

/// The mean rate of `count` bytes in `elapsed`; `None` where the time is too short to mean anything.
pub fn mean_rate(count: u64, elapsed: Duration) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    (elapsed >= Duration::from_millis(1)).then(|| count as f64 / elapsed.as_secs_f64())
}

/// A time span: `40 ms`, `1.4 s`, `2 min 05 s`, `1 h 02 min`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A count and its noun: `1 entry`, `3 entries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Text on one line, whatever names of files are in it: control characters are written as in Rust strings.
pub fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        match character {
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}

/// A path as one word of a command that a shell reads.
pub fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What a function does, in the words of the summary.
pub fn function(function: Function) -> &'static str {
    match function {
        Function::JobProcess => "check",
        Function::Setup => "set up",
        Function::DataIn => "stage in",
        Function::Paths => "paths",
        Function::PreRun => "mount",
        Function::PostRun => "unmount",
        Function::DataOut => "stage out",
        Function::Teardown => "tear down",
        Function::RealSize => "real size",
    }
}

/// How far a session is.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Registered => "registered",
        Phase::Ready => "set up",
        Phase::StagedIn => "staged in",
        Phase::Mounted => "mounted",
        Phase::Unmounted => "unmounted",
        Phase::StagedOut => "staged out",
        Phase::TornDown => "torn down",
    }
}

/// An access mode.
pub fn access_mode(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Striped => "striped",
        AccessMode::Private => "private",
    }
}

/// Where bytes live.
pub fn volume(kind: VolumeKind) -> &'static str {
    match kind {
        VolumeKind::Directory => "directory",
        VolumeKind::Image => "image",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_change_units_at_a_second_a_minute_and_an_hour() {
        assert_eq!(span(Duration::from_millis(240)), "240 ms");
        assert_eq!(span(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(span(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(span(Duration::from_secs(3_725)), "1 h 02 min");
    }

    #[test]
    fn a_path_is_one_word_for_a_shell_that_reads_it() {
        for path in ["/plain/path-1.0", "/a b/m", "/it's", "$DW_JOB_STRIPED/x", "/a\\b", "/x;y"] {
            let command = format!("printf %s {}", word(Path::new(path)));
            let read = std::process::Command::new("sh").arg("-c").arg(command).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&read.stdout), path);
        }
        assert_eq!(word(Path::new("/plain/path-1.0")), "/plain/path-1.0");
    }

    #[test]
    fn no_rate_is_made_of_no_time() {
        assert_eq!(mean_rate(10, Duration::ZERO), None);
        assert_eq!(mean_rate(10, Duration::from_secs(2)), Some(5.0));
    }
}
