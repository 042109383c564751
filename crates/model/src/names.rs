//! Words that name things, each of a type of its own, and how each is spelt.
//!
//! What comes in from people and from other programs is spelt as it may be once it is parsed. What Forebay has written
//! or said itself was parsed before that, and is read as it is.
//!
//! **Invariant:** none that is parsed leads out of the folder in which it names a file, but for a node's `.` and `..`.

use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// It cannot be such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is empty, too long, or has a character that is not allowed")]
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
                let is_one = !self.0.is_empty() && self.0.len() <= $name::LEN_MAX && self.0.chars().all(fits);
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
    Token: "_-", 64;
    /// A host of the cluster, as its configuration names it.
    NodeName: "_-.", 64;
    /// An instance, as `i3`. Its fragments' folders have it as their name.
    InstanceId: "-", 255;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_to_another_folder() {
        for text in ["", ".", "..", "a/b", "a b", "ä", "a\0", "%2e"] {
            assert_eq!(text.parse::<Token>(), Err(Misspelt), "{text:?}");
            assert_eq!(text.parse::<InstanceId>(), Err(Misspelt), "{text:?}");
        }
        assert_eq!("7_a-B".parse(), Ok(Token("7_a-B".into())));
        assert_eq!("i3".parse(), Ok(InstanceId("i3".into())));
        assert_eq!("n1.site".parse(), Ok(NodeName("n1.site".into())));
        assert_eq!("a".repeat(65).parse::<Token>(), Err(Misspelt));
    }
}
