//! What ARCHITECTURE.md says is to be touched to add something: files that are there, and few of them.

use std::collections::BTreeSet;

/// As many files as something that is added may take, its own too.
const FILES_MAX: usize = 4;

/// What is wrong with the table whose first column is "to add"; `is_there` tells of a path below a crate's `src`, as
/// `store/objects/space.rs`.
pub fn wrong(document: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let rows = document.lines().skip_while(|line| !line.starts_with("| to add |")).skip(2);
    let mut wrong = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let mut cells = row.trim_matches('|').split(" | ");
        let (name, written) = (cells.next().unwrap_or_default().trim(), cells.next().unwrap_or_default());
        let touched = cells.next().unwrap_or_default();
        // Those that it is like are examples.
        let written = written.split("(as ").next().unwrap_or_default();
        let mut files: BTreeSet<&str> = [written, touched].into_iter().flat_map(files).collect();
        wrong.extend(
            files
                .iter()
                .filter(|path| path.contains('/') && !is_there(path))
                .map(|path| format!("{name}: there is no {path}")),
        );
        files.extend(written.trim_start().starts_with("a file ").then_some("its own"));
        if files.len() > FILES_MAX {
            wrong.push(format!("{name} takes {} files: {files:?}", files.len()));
        }
    }
    wrong
}

/// The Rust files that a text names.
fn files(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_five_files_or_one_that_is_not_there_is_named() {
        let table = |row: &str| {
            format!("| to add | write | and touch |\n|---|---|---|\n| it | {row} |\n\n`f/f.rs`\n")
        };
        let wrong = |row| wrong(&table(row), |path| path != "a/gone.rs");
        let four = "a file in `a` (as `old.rs`) | `a/b.rs`, `a/c.rs`: `x`; `d.rs`, `a`, and `a/b.rs` again";
        assert_eq!(wrong(four), [""; 0]);
        let five = wrong("a file in `a` | `a/b.rs`, `a/c.rs`, `a/d.rs`, `a/e.rs`");
        assert!(five.len() == 1 && five[0].starts_with("it takes 5 files"), "{five:?}");
        assert_eq!(wrong("in `a/b.rs` a field | `a/gone.rs`"), ["it: there is no a/gone.rs"]);
    }
}
