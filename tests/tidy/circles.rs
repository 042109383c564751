//! Circles of files in one crate: files that use each other, directly or by others. Tests are left out: they use what
//! they test.
//!
//! A module and its own submodules may know each other: a parent declares its children, gives on what is theirs and
//! calls them, and they use what it has. So a circle counts only where no one of its files is above all the others.
//! What a module gives on (`pub use`) is used where it is, not where it was given on.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::{Module, Named, named};
use crate::tree::Source;

/// Which modules each one uses.
type Uses<'a> = BTreeMap<&'a Module, BTreeSet<&'a Module>>;

/// The crate's circles, each with its files, whose paths begin at the crate's `src` folder.
pub fn find(files: &[Source]) -> Vec<Vec<String>> {
    let tests = tests(files);
    let mut code: BTreeMap<Module, Named> = files
        .iter()
        .map(|file| (module(&file.path), file.text.as_str()))
        .filter(|(module, _)| !tests.iter().any(|test| module.starts_with(test)))
        .map(|(module, text)| (module.clone(), named(&module, text, |path| is_file(files, path))))
        .collect();
    // Also where the crate's root is not among the files.
    code.entry(Module::new()).or_default();
    let uses: Uses<'_> = code
        .iter()
        .map(|(module, named)| {
            let there = named.used.iter().filter_map(|path| resolve(path, &code));
            (module, there.filter(|other| *other != module).collect())
        })
        .collect();
    let circles: BTreeSet<Vec<&Module>> = code.keys().flat_map(|above| below(above, &uses)).collect();
    circles.into_iter().map(|circle| circle.into_iter().map(|module| module.join("/")).collect()).collect()
}

/// The circles of what is below this module, without it, that are in more than one of its children.
fn below<'a>(above: &Module, uses: &Uses<'a>) -> BTreeSet<Vec<&'a Module>> {
    let is_below = |module: &Module| module.len() > above.len() && module.starts_with(above);
    let inside: Uses<'a> = uses
        .iter()
        .filter(|(module, _)| is_below(module))
        .map(|(module, there)| (*module, there.iter().copied().filter(|other| is_below(other)).collect()))
        .collect();
    let reached: Uses<'a> = inside.keys().map(|module| (*module, reach(module, &inside))).collect();
    let circles = reached.iter().map(|(module, there)| {
        there.iter().copied().filter(|other| reached[other].contains(module)).collect::<Vec<_>>()
    });
    let child = |module: &&&Module| module[above.len()].clone();
    circles
        .filter(|circle| circle.iter().map(|module| child(&module)).collect::<BTreeSet<_>>().len() > 1)
        .collect()
}

/// The file in which the last name of a path is, also where others have given it on.
fn resolve<'a>(path: &[String], code: &'a BTreeMap<Module, Named>) -> Option<&'a Module> {
    let mut path = path.to_owned();
    // What is given on in a circle is nowhere.
    for _ in 0..code.len() + 1 {
        let (length, (module, named)) =
            (0..=path.len()).rev().find_map(|length| Some((length, code.get_key_value(&path[..length])?)))?;
        match path.get(length).and_then(|name| named.exported.get(name)) {
            Some(origin) if *origin != path[..=length] => {
                path = [origin.as_slice(), &path[length + 1..]].concat()
            }
            _ => return Some(module),
        }
    }
    None
}

fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    match path {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

fn is_file(files: &[Source], path: &[String]) -> bool {
    let name = path.join("/") + ".rs";
    !path.is_empty() && files.iter().any(|file| file.path == name)
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

fn reach<'a>(from: &'a Module, uses: &Uses<'a>) -> BTreeSet<&'a Module> {
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
        find(&files.iter().map(file).collect::<Vec<_>>()).iter().map(Vec::len).collect()
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
    fn a_parent_and_its_own_children_may_know_each_other_and_nobody_else_may_between_them() {
        let parent = ("a.rs", "mod x;\nmod y;\nuse self::x::X;\nuse y::Y;\nfn f() { x::g() }\n");
        let x = ("a/x.rs", "use super::A;\n");
        assert_eq!(crate_of(&[parent, x, ("a/y.rs", "use crate::a::A;\n")]), NONE);
        // Two children, by a path and by what their parent gives on.
        assert_eq!(
            crate_of(&[parent, ("a/x.rs", "use super::y::Y;\n"), ("a/y.rs", "use super::x::X;\n")]),
            [2]
        );
        let giving = ("a.rs", "mod x;\nmod y;\npub use self::x::{X};\npub(crate) use y::Y as Z;\n");
        assert_eq!(crate_of(&[giving, ("a/x.rs", "use super::Z;\n"), ("a/y.rs", "use super::X;\n")]), [2]);
        // Another file of the crate: the children's use of it is their parent's.
        let engine = ("engine.rs", "use crate::a;\nfn f() { a::start() }\n");
        assert_eq!(crate_of(&[parent, engine, ("a/x.rs", "use crate::engine::E;\n"), ("a/y.rs", "")]), [3]);
        assert_eq!(crate_of(&[parent, engine, ("a/x.rs", ""), ("a/y.rs", "")]), NONE);
    }

    #[test]
    fn tests_and_comments_do_not_count() {
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
