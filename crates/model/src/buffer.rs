//! Which buffer a job means: its own, or a persistent one.

use serde::{Deserialize, Serialize};

use crate::Token;

/// A buffer, as a job knows it. Its text is the persistent buffer's name, and empty for the job's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Token", into = "Token")]
pub enum BufferRef {
    /// The job's own.
    #[default]
    Own,
    /// The persistent buffer of this name.
    Persistent(Token),
}

impl BufferRef {
    /// Whether it is the job's own.
    pub fn is_own(&self) -> bool {
        *self == BufferRef::Own
    }

    /// The persistent buffer's name.
    pub fn persistent(&self) -> Option<&Token> {
        match self {
            BufferRef::Own => None,
            BufferRef::Persistent(name) => Some(name),
        }
    }

    /// The session that has the buffer, where `own` is the job's.
    pub fn holder<'a>(&'a self, own: &'a Token) -> &'a Token {
        self.persistent().unwrap_or(own)
    }
}

impl From<Token> for BufferRef {
    fn from(name: Token) -> BufferRef {
        if name.is_empty() { BufferRef::Own } else { BufferRef::Persistent(name) }
    }
}

impl From<BufferRef> for Token {
    fn from(buffer: BufferRef) -> Token {
        match buffer {
            BufferRef::Own => Token::default(),
            BufferRef::Persistent(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_its_text() {
        for buffer in [BufferRef::Own, BufferRef::Persistent(Token::literal("data"))] {
            assert_eq!(BufferRef::from(Token::from(buffer.clone())), buffer);
        }
        assert_eq!(BufferRef::Own.holder(&Token::literal("7")), "7");
        assert_eq!(BufferRef::Persistent(Token::literal("data")).holder(&Token::literal("7")), "data");
    }
}
