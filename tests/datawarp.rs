//! Programs for libdatawarp's functions, one each, compiled as a user would: against what `scripts/install` installed,
//! with what `pkg-config` says.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs Forebay below `prefix`; compiles the programs into `folder`. Replies their names, which are the functions'.
pub fn build(prefix: &Path, folder: &Path) -> Vec<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("datawarp");
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/install");
    run(Command::new(install).arg(prefix));
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "cray-datawarp >= 1.0"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let mut functions = functions_of(&prefix.join("include/datawarp.h"));
    for function in &functions {
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(folder.join(function));
        compile.arg(sources.join(format!("{function}.c"))).args(flags.split_whitespace());
        run(compile.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display())));
    }
    functions.sort();
    functions
}

/// A script's lines that run all of them, each in folders of its own below `buffer` and `pfs`, and say which failed.
pub fn script(functions: &[String], folder: &Path, buffer: &str, pfs: &Path) -> String {
    let mut lines = format!("mkdir {}\n", pfs.display());
    for name in functions {
        let (program, pfs) = (folder.join(name), pfs.join(name));
        lines += &format!("{} {buffer}/{name} {} || echo {name} failed\n", program.display(), pfs.display());
    }
    lines
}

/// The functions that the header declares.
fn functions_of(header: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(header).expect("it was installed");
    let name = |line: &str| {
        let declared = line.strip_prefix("int ").or(line.strip_prefix("char *"))?;
        Some(declared.split_once('(')?.0.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Runs a command that must succeed; replies what it prints.
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The folder of the installation's libraries.
pub fn library(prefix: &Path) -> PathBuf {
    prefix.join("lib/libdatawarp.so.0")
}
