//! Which paths of its own crate a file names, in every form that Rust has: from `crate`, `self` or `super`, by a
//! child's name, or by the name of a module that was imported. Comments, texts and tests are left out.

use std::collections::BTreeMap;

/// The place of a file's module in its crate: `["shard", "log"]`, nothing for the root.
pub type Module = Vec<String>;

/// What a file names.
#[derive(Debug, Default)]
pub struct Named {
    /// Paths from the crate's root.
    pub used: Vec<Module>,
    /// What it gives on under a name of its own (`pub use`), and where that is.
    pub exported: BTreeMap<String, Module>,
}

/// A path, and the name that it has where it is imported.
type Leaf = (Module, String);

/// What the file of `module` names; `is_module` says which paths are files of the crate.
pub fn named(module: &Module, text: &str, is_module: impl Fn(&[String]) -> bool) -> Named {
    let text = code(text);
    let mut found = Named::default();
    let child = |name: &str| {
        let child = [module.as_slice(), &[name.to_owned()]].concat();
        is_module(&child).then_some(child)
    };
    let mut imported = BTreeMap::new();
    for (at, name) in heads(&text) {
        let Some((base, rest)) =
            base(module, &text[at..]).or_else(|| Some((child(name)?, after(&text[at..])?)))
        else {
            continue;
        };
        let mut leaves = Vec::new();
        collect(rest, base, &mut leaves);
        if is_given_on(&text[..at]) {
            found.exported.extend(leaves.iter().map(|(path, name)| (name.clone(), path.clone())));
        }
        imported.extend(
            leaves
                .iter()
                .filter(|(path, _)| is_module(path))
                .map(|(path, name)| (name.clone(), path.clone())),
        );
        found.used.extend(leaves.into_iter().map(|(path, _)| path));
    }
    for (at, name) in heads(&text).filter(|(_, name)| child(name).is_none()) {
        if let (Some(base), Some(rest)) = (imported.get(name), after(&text[at..])) {
            let mut leaves = Vec::new();
            collect(rest, base.clone(), &mut leaves);
            found.used.extend(leaves.into_iter().map(|(path, _)| path));
        }
    }
    found
}

/// The text before the tests at its end, without comments and what is in quotes.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let (mut code, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        code.push_str(before);
        rest = if from.starts_with("//") {
            &from[from.find('\n').unwrap_or(from.len())..]
        } else if let Some(quoted) = from.strip_prefix('"') {
            after_quoted(quoted)
        } else if let Some(rest) = from.strip_prefix("'\"'") {
            rest
        } else {
            code.push_str(&from[..1]);
            &from[1..]
        };
    }
    code + rest
}

/// What follows the quote that ends this.
fn after_quoted(mut text: &str) -> &str {
    while let Some(at) = text.find(['"', '\\']) {
        let is_end = text[at..].starts_with('"');
        let next = text[at + 1..].chars().next().map_or(0, char::len_utf8);
        text = &text[at + 1 + if is_end { 0 } else { next }..];
        if is_end {
            return text;
        }
    }
    ""
}

/// Where paths begin, and their first names.
fn heads(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    let starts = text.char_indices().filter(move |(at, c)| {
        let before = &text[..*at];
        is_inside(*c)
            && !before.ends_with(is_inside)
            && !before.ends_with(['.', '$'])
            && !before.ends_with("::")
    });
    starts.filter_map(move |(at, _)| {
        let name = text[at..].split(|c| !is_inside(c)).next()?;
        after(&text[at..]).map(|_| (at, name))
    })
}

/// What follows the first name of a path and its `::`; `None` where that is no path.
fn after(text: &str) -> Option<&str> {
    text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start().strip_prefix("::")
}

/// The module that a path begins in which says so, and what follows.
fn base<'t>(module: &Module, mut path: &'t str) -> Option<(Module, &'t str)> {
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some((Module::new(), rest));
    }
    let mut base = module.clone();
    if let Some(rest) = path.strip_prefix("self::") {
        return Some((base, rest));
    }
    let begun = path;
    while let Some(rest) = path.strip_prefix("super::") {
        base.pop();
        path = rest;
    }
    (begun.len() > path.len()).then_some((base, path))
}

/// Whether what begins after this text is a `pub use`.
fn is_given_on(before: &str) -> bool {
    let Some(before) = before.trim_end().strip_suffix("use") else { return false };
    let word = before.trim_end().rsplit(['\n', ';', '}']).next().unwrap_or_default().trim();
    word == "pub" || word.starts_with("pub(")
}

/// The paths of a use-tree, `a::{b, c::d}`. The rest of the text.
fn collect<'t>(text: &'t str, mut base: Module, found: &mut Vec<Leaf>) -> &'t str {
    let mut text = text.trim_start();
    loop {
        if let Some(mut inner) = text.strip_prefix('{') {
            loop {
                inner = collect(inner, base.clone(), found).trim_start();
                match inner.strip_prefix(',') {
                    Some(rest) if !rest.trim_start().starts_with('}') => inner = rest,
                    _ => {
                        return inner
                            .trim_start_matches([',', ' ', '\n'])
                            .strip_prefix('}')
                            .unwrap_or_default();
                    }
                }
            }
        }
        let end = text.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !name.is_empty() && name != "self" {
            base.push(name.to_owned());
        }
        match rest.strip_prefix("::") {
            Some(rest) => text = rest.trim_start(),
            None => break text = rest,
        }
    }
    let end = text.find([',', '}', ';', '\n']).filter(|_| text.trim_start().starts_with("as "));
    let other = end.map(|end| text[..end].trim_start()["as ".len()..].trim().to_owned());
    let name = other.or_else(|| base.last().cloned()).unwrap_or_default();
    found.push((base, name));
    &text[end.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(text: &str) -> Vec<String> {
        let modules = ["a", "a::b", "a::b::c", "d", "d::e"];
        let is_module = |path: &[String]| modules.contains(&path.join("::").as_str());
        let named = named(&vec!["a".into()], text, is_module);
        named.used.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn every_form_of_a_path_is_seen_and_no_comment_or_text() {
        assert_eq!(used("use crate::d::{self, e as f, g::{h}};\n"), ["d", "d::e", "d::g::h"]);
        assert_eq!(
            used("use self::b::X;\nuse b::c::Y;\nfn f() { b::g() }"),
            ["a::b::X", "a::b::c::Y", "a::b::g"]
        );
        assert_eq!(used("use super::d;\nfn f() { d::e::g() }"), ["d", "d::e::g"]);
        assert_eq!(used("use crate::d::e as other;\nfn f() { other::g() }"), ["d::e", "d::e::g"]);
        assert_eq!(
            used("// crate::d\nconst A: &str = \"crate::d \\\" b::x\"; let c = '\"'; x.b::<u8>(); y::b::z()"),
            [""; 0]
        );
        assert_eq!(used("use crate::{\n    d,\n    a::b,\n};\nuse super::d::e;\n"), ["d", "a::b", "d::e"]);
    }
}
