//! Statements and their words, with their places.

use super::*;

/// Every statement as its words with their places.
fn read(text: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let symbols = Symbols { workdir: "/my folder".into(), ..Symbols::default() };
    let mut errors = Vec::new();
    let show = |word: &Word| format!("{}@{}:{}", word.text, word.place.line, word.place.column);
    let statements = statements(text, &symbols, &mut errors)
        .iter()
        .map(|statement| {
            let items = statement.items.iter().map(|item| match item {
                Item::Plain(word) => show(word),
                Item::Option { name, value } => format!("{} = {}", show(name), show(value)),
            });
            items.collect()
        })
        .collect();
    (statements, errors.iter().map(ScriptError::to_string).collect())
}

#[test]
fn a_script_that_is_wrong_in_every_line_is_not_read_to_its_end() {
    let (_, errors) = read(&"#dw swap 1GiB\n".repeat(2_000_000));
    assert_eq!(errors.len(), ERRORS_MAX);
}

#[test]
fn one_directive_too_many_is_told_with_its_line() {
    let most = "#DW stage_in\n".repeat(DIRECTIVES_MAX);
    assert!(read(&most).1.is_empty());
    let (_, errors) = read(&format!("{most}#DW swap 1GiB\n"));
    assert!(errors[0].starts_with("line 4097, column 1: more than 4096 directives"), "{errors:?}");
}

#[test]
fn directives_count_everywhere_and_words_know_their_place() {
    let (statements, errors) =
        read("#!/bin/sh\n#DW swap\t1GiB\necho hi\n#BB destroy_persistent  name=a\r\n\0");
    assert_eq!(
        statements,
        [vec!["swap@2:5", "1GiB@2:10"], vec!["destroy_persistent@4:5", "name@4:25 = a@4:30"]]
    );
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_backslash_joins_lines_of_the_same_prefix() {
    let (statements, errors) = read("#DW swap \\\n#DW 1GiB\\\n#DW pool=a\n");
    assert_eq!(statements, [["swap@1:5", "1GiB@2:5", "pool@3:5 = a@3:10"]]);
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_continuation_without_the_prefix_is_an_error_at_the_backslash() {
    for text in ["#DW swap \\\n   1GiB\n", "#DW swap \\\n#BB 1GiB\n", "#DW swap \\"] {
        let (_, errors) = read(text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(
            errors[0].starts_with("line 1, column 10: ") && errors[0].contains("begin with #DW"),
            "{errors:?}"
        );
    }
    let (statements, errors) = read("#DW swap \\ \n#DW 1GiB\n");
    assert_eq!(statements.len(), 1);
    assert!(errors[0].contains("white space follows the backslash"), "{errors:?}");
}

#[test]
fn white_space_and_equals_from_a_symbol_stay_in_the_value() {
    assert_eq!(read("#DW stage_in source=%d/x").0, [["stage_in@1:5", "source@1:14 = /my folder/x@1:21"]]);
}

#[test]
fn what_was_nearly_a_directive_is_an_error() {
    for (line, part) in [
        ("#dw jobdw capacity=1GiB", "upper case"),
        ("  #DW jobdw capacity=1GiB", "first column"),
        ("#DWjobdw capacity=1GiB", "white space is missing"),
        ("#bb create_persistent", "upper case"),
        ("#DW\u{a0}jobdw capacity=1GiB", "invisible character"),
    ] {
        let (_, errors) = read(line);
        assert_eq!(errors.len(), 1, "{line}");
        assert!(errors[0].contains(part), "{errors:?}");
    }
    for comment in ["# DW jobdw", "##DW jobdw", "#dw is DataWarp", "#DWARF symbols", "#bb jobdw", "#é"] {
        assert_eq!(read(comment), (vec![], vec![]), "{comment}");
    }
}

#[test]
fn a_space_copied_from_a_web_page_is_seen() {
    let (_, errors) = read("#DW swap\u{a0}1GiB");
    assert_eq!(errors, ["line 1, column 9: invisible character U+00A0; type a plain space, or remove it"]);
}
