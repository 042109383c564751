//! docs/SEMANTICS.md names the tests that show each of its sentences, and docs/understand/compatibility.md those that
//! show what a newer or older file does: they are there.

use std::fs;
use std::path::Path;

fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("the source tree is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            *into += &fs::read_to_string(&path).expect("sources are text");
        }
    }
}

/// All of the code, and a page.
fn code_and(page: &str) -> (String, String) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(repository.join(page)).expect("the document is there");
    let mut code = String::new();
    for folder in ["crates", "tests"] {
        sources(&repository.join(folder), &mut code);
    }
    (code, text)
}

/// What is between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn assert_is_test(code: &str, name: &str) {
    let is_test = code.contains(&format!("fn {name}(")) || code.contains(&format!("\"{name}\""));
    assert!(is_test, "no test is named {name}");
}

#[test]
fn every_test_that_the_page_on_compatibility_names_exists() {
    let (code, text) = code_and("docs/understand/compatibility.md");
    let is_sentence = |name: &&str| {
        name.matches('_').count() > 2 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    assert!(quoted(&text).filter(is_sentence).count() > 10);
    quoted(&text).filter(is_sentence).for_each(|name| assert_is_test(&code, name));
}

#[test]
fn every_sentence_has_its_row_and_every_test_that_is_named_exists() {
    let (code, text) = code_and("docs/SEMANTICS.md");
    let (promises, table) = text.split_once("## Which tests show it").expect("there is a table");
    let number = |line: &str| line.split('.').next().and_then(|word| word.parse::<u32>().ok());
    let sentences: Vec<u32> = promises.lines().filter_map(number).collect();
    let row = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse::<u32>().ok();
    let rows: Vec<u32> = table.lines().filter_map(row).collect();
    assert_eq!(sentences, rows);
    quoted(table).for_each(|name| assert_is_test(&code, name));
}
