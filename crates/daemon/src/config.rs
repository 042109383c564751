//! Configuration files: TOML, where an unknown key is an error, as a mistyped one would silently do nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use disk::state::StateError;
use serde::de::DeserializeOwned;

/// Whoever sees that many mistakes needs no more of them.
const MISTAKES_MAX: usize = 20;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("read the configuration {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It says something that is not understood.
    #[error("the configuration {}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What and where.
        reason: String,
    },
    /// One value cannot be used.
    #[error("the configuration {}: {key}: {reason}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The state folder that it names.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Reads a configuration. Its types are to have `#[serde(deny_unknown_fields)]`.
///
/// # Errors
/// See [`ConfigError`].
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| ConfigError::Io { path: path.into(), source })?;
    parse(&text).map_err(|reason| ConfigError::Wrong { path: path.into(), reason })
}

/// The same for text.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| said(text, &error))
}

/// Reads a configuration that may have mistakes: what its other lines say, if they say anything, and what is wrong with
/// each of these.
///
/// # Errors
/// It cannot be read.
pub fn examine<T: DeserializeOwned>(path: &Path) -> std::io::Result<(Option<T>, Vec<String>)> {
    Ok(understood(std::fs::read_to_string(path)?))
}

fn understood<T: DeserializeOwned>(mut text: String) -> (Option<T>, Vec<String>) {
    let mut wrong = Vec::new();
    loop {
        let error = match toml::from_str(&text) {
            Ok(value) => return (Some(value), wrong),
            Err(error) => error,
        };
        // What is missing now may stand in a line that is left out.
        let is_new = wrong.is_empty() || !error.message().starts_with("missing field");
        if is_new {
            wrong.push(said(&text, &error));
        }
        if !is_new || wrong.len() == MISTAKES_MAX || !left_out(&mut text, error.span()) {
            return (None, wrong);
        }
    }
}

/// Leaves out what stands at `span`: its line, and the whole table of a header. Whether what is left can be read.
fn left_out(text: &mut String, span: Option<std::ops::Range<usize>>) -> bool {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else { return false };
    let first = before.rfind('\n').map_or(0, |at| at + 1);
    let mut lines = text[first..].split_inclusive('\n');
    let line = lines.next().unwrap_or_default();
    let mut end = first + line.len();
    if line.trim_start().starts_with('[') {
        end += lines.take_while(|line| !line.trim_start().starts_with('[')).map(str::len).sum::<usize>();
    }
    let breaks = "\n".repeat(text[first..end].matches('\n').count());
    let is_blank = text[first..end].trim().is_empty();
    text.replace_range(first..end, &breaks);
    !is_blank && text.parse::<toml::Table>().is_ok()
}

/// One line: where, and what.
fn said(text: &str, error: &toml::de::Error) -> String {
    let what = error.message().trim().replace('\n', "; ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return what };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {what}")
}

/// The user id of a name or of a number's text. Asks `id`, and so the name services (LDAP, SSSD) as the C library does.
///
/// # Errors
/// There is no such user.
pub fn uid_of(user: &str) -> Result<u32, String> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let output = Command::new("id").args(["-u", "--", user]).output();
    let output = output.map_err(|error| format!("look up user {user} with id: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| format!("there is no user {user} on this machine"))
}

/// A user's name.
///
/// # Errors
/// There is no such user.
pub fn name_of(uid: u32) -> Result<String, String> {
    let output = Command::new("id").args(["-un", "--", &uid.to_string()]).output();
    let output = output.map_err(|error| format!("look up user {uid} with id: {error}"))?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if name.is_empty() { Err(format!("user {uid} is not known on this machine")) } else { Ok(name) }
}

/// The user ids of several users.
///
/// # Errors
/// The first that is not known.
pub fn uids_of(users: &[String]) -> Result<Vec<u32>, String> {
    users.iter().map(|user| uid_of(user)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        #[expect(dead_code, reason = "only its name matters")]
        name: Option<String>,
    }

    #[test]
    fn a_mistyped_key_is_named_with_its_line() {
        parse::<Config>("name = \"n1\"").unwrap();
        let error = parse::<Config>("\nnmae = \"n1\"").unwrap_err();
        assert!(error.contains("line 2") && error.contains("nmae"), "{error}");
    }

    #[test]
    fn all_mistakes_are_a_line_each_and_hide_nothing_else() {
        #[derive(Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Whole {
            name: String,
            port: u16,
            pools: Vec<Pool>,
        }
        #[derive(Debug, PartialEq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Pool {
            name: String,
        }
        let examine = |text: &str| understood::<Whole>(text.to_owned());
        let (whole, wrong) = examine(
            "bogus = 1\nname = \"w p\"\nport = \"x\"\n[[pols]]\nname = \"b\"\n[[pools]]\nname = \"a\"\nno = 1\n",
        );
        let pools = vec![Pool { name: "a".into() }];
        assert_eq!(whole, Some(Whole { name: "w p".into(), port: 0, pools }));
        assert_eq!(wrong.len(), 4, "{wrong:?}");
        for (number, part) in [(1, "bogus"), (3, "u16"), (4, "pols"), (8, "no")] {
            let is_said = |it: &String| it.starts_with(&format!("line {number}, ")) && it.contains(part);
            assert!(
                wrong.iter().any(is_said) && wrong.iter().all(|it| !it.contains('\n')),
                "{part}: {wrong:?}"
            );
        }
        let (whole, wrong) = examine("name = \nport = 7\n");
        assert_eq!((whole.map(|it| it.port), wrong.len()), (Some(7), 1), "{wrong:?}");
        // What follows belongs to the line that is wrong.
        let (none, wrong) = examine("pools = [\n1,\n");
        assert!(none.is_none() && wrong.len() == 1, "{wrong:?}");
        let (none, wrong) = examine("[[pools]]\nname = 1\n");
        assert!(none.is_none() && wrong.len() == 1, "{wrong:?}");
    }

    #[test]
    fn users_have_names_and_numbers() {
        assert_eq!(uid_of("root"), Ok(0));
        assert_eq!(uid_of("64030"), Ok(64030));
        assert!(uid_of("no-such-user-here").unwrap_err().contains("no-such-user-here"));
    }
}
