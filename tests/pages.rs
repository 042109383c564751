//! Programs that change one file in several ways at once, each compiled from its source in `tests/pages`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One of them, to be started with a file and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its source, without `.c`.
    pub name: &'static str,
    /// What follows the file's name.
    pub arguments: &'static [&'static str],
}

/// Ways whose changes must not damage each other anywhere, as on a local file system.
pub const STORES_BESIDE_WRITES: &[Program] = &[
    Program { name: "stores_beside_writes", arguments: &["ssww", "12"] },
    Program { name: "stores_beside_writes", arguments: &["swpc", "12"] },
    Program { name: "stores_beside_writes", arguments: &["hswp", "4"] },
];

/// Direct writes into pages that a mapping changes: local file systems (ext4, XFS) lose some of them.
pub const STORES_BESIDE_DIRECT_WRITES: &[Program] = &[
    Program { name: "stores_beside_writes", arguments: &["swdd", "8"] },
    Program { name: "stores_beside_writes", arguments: &["hssaa", "4"] },
];

/// What is complete is read.
pub const COMPLETED_WRITES: &[Program] = &[Program { name: "completed_writes", arguments: &["200"] }];

/// Every way of writing beside every way of reading, each page with one writer.
pub const MIXED_WAYS: &[Program] = &[Program { name: "mixed_ways", arguments: &["2"] }];

/// Compiles `program` into `folder`; where it is.
///
/// # Panics
/// It does not compile.
pub fn build(program: &Program, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages").join(format!("{}.c", program.name));
    let built = folder.join(program.name);
    let mut compile = Command::new("gcc");
    compile
        .args(["-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&built)
        .arg(source);
    let status = compile.status().expect("gcc is there: run scripts/install-deps test");
    assert!(status.success(), "{} does not compile", program.name);
    built
}
