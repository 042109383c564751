//! docs/SEMANTICS.md and docs/run/security.md name the tests that show each of their sentences, and
//! docs/understand/compatibility.md those that show what a newer or older file does: they are there.

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

/// Names of tests are sentences.
fn is_sentence(name: &&str) -> bool {
    name.matches('_').count() > 2
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The numbers of a page's promises: `1. A buffer's files`.
fn sentences(promises: &str) -> Vec<u32> {
    promises.lines().filter_map(|line| line.split('.').next()?.parse().ok()).collect()
}

/// Those of a list of tests: `- **1** `.
fn tested(list: &str) -> Vec<u32> {
    list.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** ")?.0.parse().ok()).collect()
}

#[test]
fn every_test_that_the_pages_on_compatibility_and_security_name_exists() {
    for page in ["docs/understand/compatibility.md", "docs/run/security.md"] {
        let (code, text) = code_and(page);
        assert!(quoted(&text).filter(is_sentence).count() > 10, "{page}");
        quoted(&text).filter(is_sentence).for_each(|name| assert_is_test(&code, name));
    }
}

#[test]
fn every_promise_of_security_has_its_tests() {
    let (_, text) = code_and("docs/run/security.md");
    let (promises, list) = text.split_once("Tests of each promise:").expect("there is a list");
    let (list, _) =
        list.split_once("Tests of each promise:").expect("and one of buffers over the nodes of a job");
    assert_eq!(sentences(promises), tested(list));
}

#[test]
fn every_sentence_has_its_tests_and_every_test_that_is_named_exists() {
    let (code, text) = code_and("docs/SEMANTICS.md");
    let (promises, list) = text.split_once("## Which tests show it").expect("there is a list");
    assert_eq!(sentences(promises), tested(list));
    quoted(list).for_each(|name| assert_is_test(&code, name));
}
