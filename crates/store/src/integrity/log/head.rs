//! The head of a log of seals: whose it is, and how often it was written anew.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 8] = b"FRBYSUMS";
const FIXED_BYTES: usize = 28;
const OWNER_BYTES_MAX: usize = 4096;

/// See the module's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// From 1 on; 0: of the first version, which did not say.
    pub(super) generation: u64,
    /// Whose objects are sealed in it; empty: it does not say.
    pub(super) owner: String,
}

impl Head {
    /// As it is in the log.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut body = self.generation.to_le_bytes().to_vec();
        body.extend_from_slice(&(self.owner.len() as u32).to_le_bytes());
        body.extend_from_slice(self.owner.as_bytes());
        let crc = crc32c::crc32c(&body);
        [MAGIC.as_slice(), &2_u32.to_le_bytes(), &crc.to_le_bytes(), &body].concat()
    }

    /// That of the log `file`, and where its entries begin; `None` where there is no whole one.
    ///
    /// # Errors
    /// The errno of the read.
    pub(super) fn read(file: &File) -> io::Result<Option<(Head, u64)>> {
        let length = file.metadata()?.len();
        let mut bytes =
            vec![0; (FIXED_BYTES + OWNER_BYTES_MAX).min(usize::try_from(length).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(parse(&bytes).map(|(head, len)| (head, len as u64)))
    }
}

fn parse(bytes: &[u8]) -> Option<(Head, usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    if number(8)? == 1 {
        return Some((Head { generation: 0, owner: String::new() }, 12));
    }
    let end = FIXED_BYTES + (number(24)? as usize).min(OWNER_BYTES_MAX);
    let body = bytes.get(16..end)?;
    if number(8)? != 2 || crc32c::crc32c(body) != number(12)? {
        return None;
    }
    let generation = u64::from_le_bytes(body[..8].try_into().ok()?);
    let owner = String::from_utf8(body[12..].to_vec()).ok()?;
    Some((Head { generation, owner }, end))
}
