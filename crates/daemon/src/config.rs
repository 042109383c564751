//! Configuration files: TOML, where an unknown key is an error, as a mistyped one would silently do nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use disk::state::StateError;
use serde::de::DeserializeOwned;

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
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
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
    fn users_have_names_and_numbers() {
        assert_eq!(uid_of("root"), Ok(0));
        assert_eq!(uid_of("64030"), Ok(64030));
        assert!(uid_of("no-such-user-here").unwrap_err().contains("no-such-user-here"));
    }
}
