//! Words that name things, each of a type of its own, and how each is spelt.
//!
//! What comes in from people and from other programs is spelt as it may be once it is parsed. What Forebay has written
//! or said itself was parsed before that, and is read as it is.
//!
//! **Invariant:** none that is parsed leads out of the folder in which it names a file, or is hidden there.

use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// It cannot be such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is empty, too long, begins with a dot, or has a character that is not allowed")]
pub struct Misspelt;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $marks:literal, $length:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// The default is empty: nothing is named.
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// So many characters it has at most.
            pub const LEN_MAX: usize = $length;

            /// As it is: it is looked up only, or was parsed before.
            pub fn unchecked(text: impl Into<String>) -> $name {
                $name(text.into())
            }

            /// One that the program itself spells.
            ///
            /// # Panics
            /// It is misspelt.
            #[track_caller]
            pub fn literal(text: &'static str) -> $name {
                text.parse().expect("spell it with the characters that it may have")
            }

            /// Whether it is spelt as it may be.
            ///
            /// # Errors
            /// It is not.
            pub fn check(&self) -> Result<(), Misspelt> {
                let fits = |c: char| c.is_ascii_alphanumeric() || $marks.contains(c);
                let has_length = !self.0.is_empty() && self.0.len() <= $name::LEN_MAX;
                let is_one = has_length && !self.0.starts_with('.') && self.0.chars().all(fits);
                if is_one { Ok(()) } else { Err(Misspelt) }
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Nothing is named.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl FromStr for $name {
            type Err = Misspelt;

            fn from_str(text: &str) -> Result<$name, Misspelt> {
                let name = $name(text.to_owned());
                name.check().map(|()| name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        /// Where it names a file or a folder.
        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                self.0.as_ref()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                self.0 == text
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                self.0 == *text
            }
        }
    )* };
}

names! {
    /// A session's token: a job's id, or a persistent buffer's name. It becomes part of file names and of requests.
    Token: "_-.", 64;
    /// A host of the cluster, as its configuration names it.
    NodeName: "_-.", 64;
    /// An instance, as `i3`. Its fragments' folders have it as their name.
    InstanceId: "-", 255;
}

impl Token {
    /// How it is spelt, for people.
    pub const SPELLING: &str = "letters, digits, `_`, `-` and `.`, no `.` first, and at most 64 characters";

    /// The token of the persistent buffer of this name. Workload managers take a token that begins with a digit for a
    /// job's (Slurm's `burst_buffer_datawarp.c`).
    ///
    /// # Errors
    /// No buffer can have that name.
    pub fn of_buffer(name: &str) -> Result<Token, BadBufferName> {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        name.parse().ok().filter(|_| begins).ok_or_else(|| BadBufferName { name: name.to_owned() })
    }
}

/// It cannot be the name of a persistent buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` cannot be the name of a persistent buffer: it begins with a letter or `_`, and has only letters, digits, \
     `_`, `-` and `.`, at most {most}", most = Token::LEN_MAX
)]
pub struct BadBufferName {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_to_another_folder() {
        for text in ["", ".", "..", ".a", "a/b", "a b", "ä", "a\0", "%2e"] {
            assert_eq!(text.parse::<Token>(), Err(Misspelt), "{text:?}");
            assert_eq!(text.parse::<InstanceId>(), Err(Misspelt), "{text:?}");
            assert_eq!(text.parse::<NodeName>(), Err(Misspelt), "{text:?}");
        }
        assert_eq!("7_a-B".parse(), Ok(Token("7_a-B".into())));
        assert_eq!("i3".parse(), Ok(InstanceId("i3".into())));
        assert_eq!("n1.site".parse(), Ok(NodeName("n1.site".into())));
        assert_eq!("a".repeat(65).parse::<Token>(), Err(Misspelt));
    }

    #[test]
    fn a_buffers_name_may_have_dots_and_is_no_jobs_number() {
        for name in ["test35.1", "a.b", "_a", "a-b_c.d"] {
            assert_eq!(Token::of_buffer(name), Ok(Token(name.into())));
        }
        for name in ["", "7", "7a", ".a", "-a", "a/b", &"a".repeat(65)] {
            assert!(Token::of_buffer(name).is_err(), "{name:?}");
        }
    }
}
