//! The rules, kept by this repository.

use serde_json::Value;

use crate::listed::{self, Counts};
use crate::tree::{Source, ask, read, root, sources};
use crate::{arrows, circles, columns, commits, lengths, licences};

/// The commits after this one keep the rule for subjects.
const FIRST: &str = "ccaab54845846096b1ebf963360b3b2add70766d";

/// Where what broke a rule before is listed.
const LIST: &str = "tests/tidy/listed.txt";

/// Set to write what was mended into the list.
const LOWER: &str = "TIDY_LOWER";

fn metadata(arguments: &[&str]) -> Value {
    let fixed = ["metadata", "--offline", "--locked", "--format-version", "1"];
    let said = ask(env!("CARGO"), &[&fixed, arguments].concat()).expect("cargo knows the workspace");
    serde_json::from_str(&said).expect("cargo speaks JSON")
}

fn count() -> Counts {
    let mut found = Counts::new();
    let code = sources(&["crates", "tests", "bench"], ".rs");
    for Source { path, text } in &code {
        found.insert(("file", path.clone()), lengths::file(text));
        found.insert(("columns", path.clone()), columns::of_source(text));
        for (name, length) in lengths::functions(text) {
            let longest = found.entry(("function", format!("{path} {name}"))).or_default();
            *longest = length.max(*longest);
        }
    }
    for Source { path, text } in &sources(&["crates", "docs", "bench", "examples"], ".md") {
        found.insert(("columns", path.clone()), columns::of_prose(text));
    }
    for path in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.insert(("columns", path.to_owned()), columns::of_prose(&read(path)));
    }
    for (name, files) in crates(&code) {
        for (at, size) in circles::sizes(&files).into_iter().enumerate() {
            found.insert(("circle", format!("{name} {}", at + 1)), size);
        }
    }
    listed::breaches(found)
}

/// The sources of each crate, by their paths below its `src`.
fn crates(code: &[Source]) -> Vec<(String, Vec<Source>)> {
    let mut crates: Vec<(String, Vec<Source>)> = Vec::new();
    for file in code {
        let Some((name, path)) = file.path.split_once("/src/") else { continue };
        if path.starts_with("bin/") || (path == "main.rs" && name != "crates/cli" && name != "bench") {
            continue;
        }
        if crates.last().is_none_or(|(last, _)| last != name) {
            crates.push((name.to_owned(), Vec::new()));
        }
        let (_, files) = crates.last_mut().expect("it was put there");
        files.push(Source { path: path.to_owned(), text: file.text.clone() });
    }
    crates
}

#[test]
fn what_is_too_long_too_wide_or_in_a_circle_is_an_old_breach_and_grows_no_more() {
    let text = read(LIST);
    let listed = listed::parse(&text).unwrap();
    let found = count();
    let worse = listed::worse(&listed, &found);
    assert!(worse.is_empty(), "{LIST} does not have:\n{}", worse.join("\n"));
    let Some(lower) = listed::lowered(&listed, &found) else { return };
    if std::env::var_os(LOWER).is_none() {
        panic!("well done: write what was mended into {LIST} with `{LOWER}=1 cargo test --release -p tidy`");
    }
    let why: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    std::fs::write(root().join(LIST), why + &listed::show(&lower)).unwrap();
}

#[test]
fn crates_use_each_other_as_architecture_md_says() {
    let real = arrows::of_metadata(&metadata(&["--no-deps"]));
    let wrong = arrows::differences(&read("ARCHITECTURE.md"), &real);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_that_is_linked_has_a_licence_that_deny_toml_allows() {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let allowed = licences::allowed(&read("deny.toml"));
    let refused = licences::refused(&metadata(&["--filter-platform", &target]), &allowed);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn subjects_of_commits_have_their_form() {
    // Another user's clone is read as well, and an archive has no history.
    let git = |arguments: &[&str]| ask("git", &[&["-c", "safe.directory=*"], arguments].concat());
    if git(&["cat-file", "-e", FIRST]).is_err() {
        return;
    }
    let mut areas = vec!["workspace".to_owned()];
    for place in [".", "crates"] {
        let entries = std::fs::read_dir(root().join(place)).unwrap();
        areas.extend(entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
    }
    let subjects = git(&["log", "--no-merges", "--format=%s", &format!("{FIRST}..HEAD")]).unwrap();
    let wrong: Vec<String> =
        subjects.lines().filter_map(|subject| commits::check(subject, &areas).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
