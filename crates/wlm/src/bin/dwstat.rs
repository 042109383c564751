//! `dwstat`: shows pools, sessions and what belongs to them. See [`wlm::stat`].

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use api::control::Control;
use clap::Parser;
use wire::control::Objects;
use wlm::stat::{self, Arguments, Units};

/// Slurm relays this command to users and gives it 2 s.
const LIMIT: Duration = Duration::from_millis(1800);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let units = if arguments.bytes { Units::Bytes } else { Units::Human };
    match Control::within(LIMIT).get::<Objects>("/v1/objects") {
        Ok(objects) => print(&stat::show(&objects, arguments.what, units)),
        Err(error) => {
            // Standard error is the same pipe for Slurm; a user's script must not take the line for a table.
            let _ = writeln!(std::io::stderr(), "dwstat: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that has seen enough, as `head`, is no failure.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}
