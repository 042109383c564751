//! Which buffer a job means: its own, or a persistent one.

use serde::{Deserialize, Serialize};

/// A buffer, as a job knows it. Its text is the persistent buffer's name, and empty for the job's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum BufferRef {
    /// The job's own.
    #[default]
    Own,
    /// The persistent buffer of this name.
    Persistent(String),
}

impl BufferRef {
    /// Whether it is the job's own.
    pub fn is_own(&self) -> bool {
        *self == BufferRef::Own
    }

    /// The persistent buffer's name.
    pub fn persistent(&self) -> Option<&str> {
        match self {
            BufferRef::Own => None,
            BufferRef::Persistent(name) => Some(name),
        }
    }

    /// The session that has the buffer, where `own` is the job's.
    pub fn holder<'a>(&'a self, own: &'a str) -> &'a str {
        self.persistent().unwrap_or(own)
    }
}

impl From<String> for BufferRef {
    fn from(text: String) -> BufferRef {
        if text.is_empty() { BufferRef::Own } else { BufferRef::Persistent(text) }
    }
}

impl From<BufferRef> for String {
    fn from(buffer: BufferRef) -> String {
        match buffer {
            BufferRef::Own => String::new(),
            BufferRef::Persistent(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_its_text() {
        for buffer in [BufferRef::Own, BufferRef::Persistent("data".into())] {
            assert_eq!(BufferRef::from(String::from(buffer.clone())), buffer);
        }
        assert_eq!(BufferRef::Own.holder("7"), "7");
        assert_eq!(BufferRef::Persistent("data".into()).holder("7"), "data");
    }
}
