//! Log lines on standard error, which a daemon's starter appends to its log file.

use tracing::Level;

/// The environment variable that chooses the level: `error`, `warn`, `info` or `debug`.
pub const LEVEL_VARIABLE: &str = "FOREBAY_LOG";

/// Sends log lines to standard error, without colours, from the level in `FOREBAY_LOG` up (default `info`).
///
/// A second call in one process changes nothing.
pub fn init() {
    let level = level(std::env::var(LEVEL_VARIABLE).ok().as_deref());
    // An error here means that a subscriber is installed already: the lines go there.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(level)
        .with_target(false)
        // It would be told on standard error, too, whose failure is a panic: a full disk must not end our threads.
        .log_internal_errors(false)
        .try_init();
}

fn level(wanted: Option<&str>) -> Level {
    match wanted {
        Some("error") => Level::ERROR,
        Some("warn") => Level::WARN,
        Some("debug") => Level::DEBUG,
        _ => Level::INFO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_info_unless_a_known_one_is_named() {
        assert_eq!(level(None), Level::INFO);
        assert_eq!(level(Some("warn")), Level::WARN);
        assert_eq!(level(Some("loud")), Level::INFO);
    }
}
