//! Circles of files in one crate: files that use each other, directly or by others, as their paths `crate::` and
//! `super::` say. Tests are left out: they use what they test.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Source;

/// The place of a file's module in its crate: `["shard", "log"]`, nothing for the root.
type Module = Vec<String>;

/// The sizes of the crate's circles, the largest first. The files' paths begin at the crate's `src` folder.
pub fn sizes(files: &[Source]) -> Vec<usize> {
    let tests = tests(files);
    let code: BTreeMap<Module, &str> = files
        .iter()
        .map(|file| (module(&file.path), file.text.as_str()))
        .filter(|(module, _)| !tests.iter().any(|test| module.starts_with(test)))
        .collect();
    let uses: BTreeMap<&Module, BTreeSet<&Module>> =
        code.iter().map(|(module, text)| (module, used(module, text, &code))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        code.keys().map(|module| (module, reach(module, &uses))).collect();
    let mut circles: BTreeSet<BTreeSet<&Module>> = BTreeSet::new();
    for (module, there) in &reached {
        circles.insert(there.iter().copied().filter(|other| reached[other].contains(module)).collect());
    }
    let mut sizes: Vec<usize> = circles.iter().map(BTreeSet::len).filter(|size| *size > 1).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    match path {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// The modules that are only there for tests.
fn tests(files: &[Source]) -> Vec<Module> {
    let mut tests = Vec::new();
    for file in files {
        for declared in file.text.split("#[cfg(test)]\n").skip(1) {
            let line = declared.trim_start().lines().next().unwrap_or_default();
            let name = line.split("mod ").nth(1).and_then(|name| name.strip_suffix(';'));
            tests.extend(name.map(|name| [module(&file.path), vec![name.to_owned()]].concat()));
        }
    }
    tests
}

/// The modules of `code` that a file uses.
fn used<'a>(module: &Module, text: &str, code: &'a BTreeMap<Module, &str>) -> BTreeSet<&'a Module> {
    let text: String =
        without_tests(text).lines().map(|line| line.split("//").next().unwrap_or(line)).collect();
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let inside = text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
            if inside || text[..at].ends_with("super::") {
                continue;
            }
            let (base, rest) = base(module, &text[at..]);
            let mut paths = Vec::new();
            leaves(rest, base, &mut paths);
            found.extend(paths.iter().filter_map(|path| {
                let mut lengths = (0..=path.len()).rev();
                lengths.find_map(|length| code.get_key_value(&path[..length])).map(|(module, _)| module)
            }));
        }
    }
    found.remove(module);
    found
}

/// The text before the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// The module that a path begins in, and what follows.
fn base<'t>(module: &Module, mut path: &'t str) -> (Module, &'t str) {
    if let Some(rest) = path.strip_prefix("crate::") {
        return (Module::new(), rest);
    }
    let mut base = module.clone();
    while let Some(rest) = path.strip_prefix("super::") {
        base.pop();
        path = rest;
    }
    (base, path)
}

/// The paths of a use-tree, `a::{b, c::d}`. The rest of the text.
fn leaves<'t>(text: &'t str, mut base: Module, found: &mut Vec<Module>) -> &'t str {
    let mut text = text.trim_start();
    loop {
        if let Some(mut inner) = text.strip_prefix('{') {
            loop {
                inner = leaves(inner, base.clone(), found).trim_start();
                match inner.strip_prefix(',') {
                    Some(rest) if !rest.trim_start().starts_with('}') => inner = rest,
                    _ => return inner.trim_start_matches([',', ' ']).strip_prefix('}').unwrap_or_default(),
                }
            }
        }
        let end = text.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !name.is_empty() && name != "self" {
            base.push(name.to_owned());
        }
        match rest.strip_prefix("::") {
            Some(rest) => text = rest,
            None => break text = rest,
        }
    }
    found.push(base);
    // A new name: `as other`.
    let end = text.find([',', '}', ';', '\n']).filter(|_| text.trim_start().starts_with("as "));
    &text[end.unwrap_or(0)..]
}

fn reach<'a>(from: &'a Module, uses: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::from([from]);
    let mut left = vec![from];
    while let Some(module) = left.pop() {
        left.extend(uses[module].iter().copied().filter(|next| reached.insert(next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn crate_of(files: &[(&str, &str)]) -> Vec<usize> {
        let file = |(path, text): &(&str, &str)| Source { path: (*path).into(), text: (*text).into() };
        sizes(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let root = ("lib.rs", "mod a;\nmod b;\nmod c;\n#[cfg(test)]\nmod fixtures;\n");
        let c = ("c.rs", "use super::a;\n");
        assert_eq!(
            crate_of(&[root, ("a.rs", "use crate::{b::B, d};\n"), ("b.rs", "use crate::c;\n"), c]),
            [3]
        );
        assert_eq!(crate_of(&[root, ("a.rs", "use crate::b;\n"), ("b.rs", "fn f() {}\n"), c]), NONE);
        assert_eq!(crate_of(&[root, ("a.rs", "fn f() { crate::c::g() }\n"), ("b.rs", ""), c]), [2]);
    }

    #[test]
    fn folders_count_by_their_files_and_tests_and_comments_do_not() {
        let inner = ("a/inner.rs", "use super::super::b;\nuse super::A;\n");
        assert_eq!(crate_of(&[("a.rs", "use crate::a::inner::{self, X};\n"), inner, ("b.rs", "")]), [2]);
        assert_eq!(crate_of(&[("a.rs", "// crate::b\n"), ("b.rs", "use crate::a;\n")]), NONE);
        let tested = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n";
        assert_eq!(crate_of(&[("a.rs", tested), ("b.rs", "use crate::a;\n")]), NONE);
        let root = ("lib.rs", "#[cfg(test)]\nmod fixtures;\n");
        assert_eq!(
            crate_of(&[root, ("fixtures.rs", "use crate::b;\n"), ("b.rs", "use crate::fixtures;\n")]),
            NONE
        );
    }
}
