//! Words that name things, and how each is spelt.
//!
//! **Invariant:** none of them leads out of the folder in which it names a file, but for a node's `.` and `..`.

use std::str::FromStr;

/// It cannot be such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is empty, too long, or has a character that is not allowed")]
pub struct Misspelt;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $marks:literal, $length:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name(String);

        impl FromStr for $name {
            type Err = Misspelt;

            fn from_str(text: &str) -> Result<$name, Misspelt> {
                let fits = |c: char| c.is_ascii_alphanumeric() || $marks.contains(c);
                let is_one = !text.is_empty() && text.len() <= $length && text.chars().all(fits);
                if is_one { Ok($name(text.to_owned())) } else { Err(Misspelt) }
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
