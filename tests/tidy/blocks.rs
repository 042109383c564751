//! Blocks of code of a page: each has a language that the site knows, and no command hides in one that is not run.

use std::collections::BTreeSet;

/// The languages that `scripts/site/hooks.py` lists, in its one line.
///
/// # Panics
/// It has no such line.
pub fn languages(hooks: &str) -> BTreeSet<&str> {
    let line = hooks.lines().find_map(|line| line.strip_prefix("LANGUAGES = "));
    line.expect("hooks.py lists the languages").split('"').skip(1).step_by(2).collect()
}

/// What is wrong with the blocks of the page `path`. `bash` is for scripts and their directives, which begin with `#`;
/// commands are `sh` or `console`, which tests run.
pub fn wrong(path: &str, text: &str, languages: &BTreeSet<&str>) -> Vec<String> {
    let (mut wrong, mut language) = (Vec::new(), None);
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    for (number, line) in lines.iter().enumerate() {
        let Some(named) = line.strip_prefix("```") else { continue };
        if language.take().is_some() {
            continue;
        }
        language = Some(named);
        let is_script = lines.get(number + 1).is_some_and(|first| first.starts_with('#'));
        if !languages.contains(named) {
            wrong.push(format!("{path}:{}: a block of the language `{named}`", number + 1));
        } else if named == "bash" && !is_script {
            wrong.push(format!("{path}:{}: commands are `sh` or `console`, which tests run", number + 1));
        }
    }
    wrong.extend(language.map(|_| format!("{path}: a block does not end")));
    wrong
}

/// The pages below `docs/` that the navigation of the site lacks.
pub fn unlisted<'a>(navigation: &str, pages: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_listed = |page: &str| {
        let place = page.trim_start_matches("docs/");
        navigation
            .lines()
            .any(|line| line.trim_start().starts_with("- ") && line.ends_with(&format!(": {place}")))
    };
    pages.filter(|page| page.starts_with("docs/") && !is_listed(page)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_language_and_commands_are_in_those_that_are_run() {
        let known = languages("x = 1\nLANGUAGES = {\"sh\", \"bash\"}\n");
        assert_eq!(known, BTreeSet::from(["sh", "bash"]));
        let of = |text| wrong("a.md", text, &known);
        assert_eq!(of("```sh\nmake\n```\n\n- One\n\n  ```bash\n  #DW jobdw\n  ```\n"), [""; 0]);
        assert_eq!(of("\n```bash\nmake\n```\n"), ["a.md:2: commands are `sh` or `console`, which tests run"]);
        assert_eq!(
            of("```\nmake\n```\n```shell\n"),
            [
                "a.md:1: a block of the language ``",
                "a.md:4: a block of the language `shell`",
                "a.md: a block does not end"
            ]
        );
    }

    #[test]
    fn a_page_is_in_the_navigation() {
        let pages = ["docs/run/limits.md", "docs/limits.md", "README.md"].into_iter();
        assert_eq!(unlisted("nav:\n  - Run:\n      - Limits: run/limits.md\n", pages), ["docs/limits.md"]);
    }
}
