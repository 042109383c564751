//! `dwcli`: makes, lists, changes and removes buffers and nodes. See [`wlm::admin`].

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use wlm::admin::{self, arguments::Command};

fn main() -> ExitCode {
    match admin::run(&Command::parse()) {
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "dwcli: {error}");
            ExitCode::FAILURE
        }
    }
}
