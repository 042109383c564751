//! Links of a page to other files of the repository, and to headings in them.

use std::path::{Component, Path, PathBuf};

/// The links of the page `path` that lead nowhere; `read` gives a page, or `None` where there is no such file.
pub fn dead(path: &str, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let leads_nowhere = |target: &&str| {
        let (file, heading) = target.split_once('#').map_or((*target, None), |(file, of)| (file, Some(of)));
        let there = match file {
            "" => Some(text.to_owned()),
            file => read(&beside(path, file)),
        };
        !there.is_some_and(|page| heading.is_none_or(|heading| headings(&page).any(|name| name == heading)))
    };
    targets(text).filter(leads_nowhere).map(|target| format!("{path}: {target}")).collect()
}

/// What a page links to, but for other sites.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let lines = outside_of_blocks(text);
    let all = lines.flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    all.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn outside_of_blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut is_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    })
}

/// The names of a page's headings in links, as the site's renderer makes them.
fn headings(page: &str) -> impl Iterator<Item = String> {
    outside_of_blocks(page).filter_map(|line| {
        let name = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
        let kept = name.to_lowercase().replace(' ', "-");
        let kept: String = kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
        Some(kept.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-"))
    })
}

/// The path of `file`, which the page `path` names, from the repository's root.
fn beside(path: &str, file: &str) -> PathBuf {
    let mut found = PathBuf::from(path);
    found.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            part => found.push(part),
        }
    }
    found
}

/// Whether a page has commands that a reader runs: blocks of `sh` or `console`.
pub fn has_commands(text: &str) -> bool {
    text.lines().any(|line| ["```sh", "```console"].iter().any(|fence| line.trim_start() == *fence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_and_a_heading_or_is_named() {
        let read = |path: &Path| (path == Path::new("docs/b.md")).then(|| "# Two words, `x`\n".to_owned());
        let dead = |text: &str| dead("docs/use/a.md", text, read);
        let right = "[b](../b.md) and [c](../b.md#two-words-x), [d](https://x.org/y), [e](#here)\n## Here\n";
        assert_eq!(dead(right), [""; 0]);
        assert_eq!(dead("[b](b.md)"), ["docs/use/a.md: b.md"]);
        assert_eq!(
            dead("[b](../b.md#three) [e](#here)"),
            ["docs/use/a.md: ../b.md#three", "docs/use/a.md: #here"]
        );
        assert_eq!(dead("```text\n[b](b.md)\n```\n"), [""; 0]);
    }

    #[test]
    fn commands_are_in_blocks_of_a_shell() {
        assert!(has_commands("text\n```console\n$ true\n```\n") && !has_commands("```text\n$ true\n```\n"));
    }
}
