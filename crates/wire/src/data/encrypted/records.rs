//! Records, one direction each: numbered, so that each is good at its place alone.

use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

pub(super) const TAG_BYTES: usize = 16;

const HEAD_BYTES: usize = 2;

/// Bytes in clear that one record has at most: what a length of 16 bits has room for, in whole cache lines.
pub(super) const RECORD_BYTES: usize = 65_472;

/// The key is exchanged for one that is made of it so often, which is long before AES-GCM gives anything away
/// (64 GiB at most; TLS 1.3 allows some 380 GiB).
pub(super) const REKEY_EVERY: u64 = 1 << 20;

/// So much is read ahead at most: small records come together.
const AHEAD_BYTES: usize = 8 << 10;

/// A key, for ciphertexts of which each has another number.
pub(super) struct RecordKey(LessSafeKey);

impl RecordKey {
    pub(super) fn new(key: &[u8; 32]) -> RecordKey {
        RecordKey(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("AES-256 has keys of 32 bytes")))
    }

    /// Encrypts `text` where it is.
    pub(super) fn seal(&self, number: u64, beside: &[u8], text: &mut [u8]) -> Tag {
        let sealed = self.0.seal_in_place_separate_tag(nonce(number), Aad::from(beside), text);
        sealed.expect("a record is shorter than AES-GCM allows")
    }

    /// Decrypts `text` where it is, unless it was changed.
    pub(super) fn open(
        &self,
        number: u64,
        beside: &[u8],
        tag: Tag,
        text: &mut [u8],
    ) -> Result<(), ring::error::Unspecified> {
        self.0.open_in_place_separate_tag(nonce(number), Aad::from(beside), tag, text, 0..).map(drop)
    }

    /// The next, as Noise's REKEY makes it; nobody comes back from it to the former one.
    fn next(&self) -> RecordKey {
        let mut key = [0; 32];
        let _tag = self.seal(u64::MAX, &[], &mut key);
        RecordKey::new(&key)
    }
}

/// As Noise has it for AES-GCM.
fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// A key and the number of the next record.
struct Numbered {
    key: RecordKey,
    next: u64,
}

impl Numbered {
    fn new(key: &[u8; 32]) -> Numbered {
        Numbered { key: RecordKey::new(key), next: 0 }
    }

    /// No number comes twice: 2^64 records take longer than any connection lasts.
    fn take(&mut self) -> (&RecordKey, u64) {
        let number = self.next;
        if number > 0 && number.is_multiple_of(REKEY_EVERY) {
            self.key = self.key.next();
        }
        self.next += 1;
        (&self.key, number)
    }
}

/// What goes out.
pub(super) struct Sealing {
    key: Numbered,
    /// The record; kept to spare the allocation.
    record: Vec<u8>,
    /// A record went out in part: nothing can follow it.
    is_broken: bool,
}

impl Sealing {
    pub(super) fn new(key: &[u8; 32]) -> Sealing {
        Sealing { key: Numbered::new(key), record: Vec::new(), is_broken: false }
    }

    /// Sends a record with the beginning of what is there; replies how many bytes.
    pub(super) fn write(&mut self, socket: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.record.clear();
        self.record.extend_from_slice(&[0; HEAD_BYTES]);
        for slice in slices {
            let room = RECORD_BYTES + HEAD_BYTES - self.record.len();
            self.record.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let len = self.record.len() - HEAD_BYTES;
        if len == 0 {
            return Ok(0);
        }
        let sealed = u16::try_from(len + TAG_BYTES).expect("a record has fewer than 64 KiB");
        self.record[..HEAD_BYTES].copy_from_slice(&sealed.to_le_bytes());
        let (key, number) = self.key.take();
        let tag = key.seal(number, &[], &mut self.record[HEAD_BYTES..]);
        self.record.extend_from_slice(tag.as_ref());
        let sent = socket.write_all(&self.record);
        self.is_broken = sent.is_err();
        sent.map(|()| len)
    }
}

/// What comes in.
pub(super) struct Opening {
    key: Numbered,
    buffer: Vec<u8>,
    /// Of the buffer: what is decrypted and was not asked for yet. It is before `sealed`.
    clear: Range<usize>,
    /// Of the buffer: what came from the socket and is not decrypted.
    sealed: Range<usize>,
    /// A record did not fit: nothing can follow it, whoever asks again.
    is_broken: bool,
}

impl Opening {
    pub(super) fn new(key: &[u8; 32]) -> Opening {
        Opening { key: Numbered::new(key), buffer: Vec::new(), clear: 0..0, sealed: 0..0, is_broken: false }
    }

    /// Whether the next read does not wait for the socket.
    pub(super) fn is_ready(&self) -> bool {
        !self.clear.is_empty() || self.record().is_some_and(|record| record.end <= self.sealed.end)
    }

    /// Where the next record is, or will be, in the buffer.
    fn record(&self) -> Option<Range<usize>> {
        let head = self.buffer[self.sealed.clone()].first_chunk::<HEAD_BYTES>()?;
        let start = self.sealed.start + HEAD_BYTES;
        Some(start..start + usize::from(u16::from_le_bytes(*head)))
    }

    /// As of a socket: some bytes, or 0 at the end of the connection. What came of a record stays where the socket's
    /// time is over.
    pub(super) fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        while self.clear.is_empty() {
            match self.record().filter(|record| record.end <= self.sealed.end) {
                Some(record) => {
                    if let Some(len) = self.open(record, buffer)? {
                        return Ok(len);
                    }
                }
                None if self.fill(socket)? == 0 => return self.end(),
                None => {}
            }
        }
        let len = self.clear.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.buffer[self.clear.start..self.clear.start + len]);
        self.clear.start += len;
        Ok(len)
    }

    /// Decrypts a record: into `place` where that has room for it, and replies how long it is; else in the buffer.
    fn open(&mut self, record: Range<usize>, place: &mut [u8]) -> io::Result<Option<usize>> {
        let changed = || io::Error::new(io::ErrorKind::ConnectionAborted, CHANGED);
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(changed());
        }
        let (start, end) = (record.start, record.end);
        let (text, tag) = self.buffer[record].split_last_chunk_mut::<TAG_BYTES>().ok_or_else(changed)?;
        let (tag, len) = (Tag::from(*tag), text.len());
        if len == 0 {
            return Err(changed());
        }
        let (key, number) = self.key.take();
        let direct = place.get_mut(..len);
        let is_direct = direct.is_some();
        let opened = match direct {
            Some(place) => {
                place.copy_from_slice(text);
                key.open(number, &[], tag, place)
            }
            None => key.open(number, &[], tag, text),
        };
        opened.map_err(|_| changed())?;
        self.is_broken = false;
        self.sealed.start = end;
        if is_direct {
            return Ok(Some(len));
        }
        self.clear = start..start + len;
        Ok(None)
    }

    /// Takes from the socket what is there of the next record, and small ones behind it.
    fn fill(&mut self, socket: &mut impl Read) -> io::Result<usize> {
        let needed = self.record().map_or(0, |record| record.end - self.sealed.start);
        // With the head of the one behind it, which says how much is to be taken next.
        let room = (needed + HEAD_BYTES).max(AHEAD_BYTES);
        self.buffer.copy_within(self.sealed.clone(), 0);
        self.sealed = 0..self.sealed.len();
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let len = socket.read(&mut self.buffer[self.sealed.end..room])?;
        self.sealed.end += len;
        Ok(len)
    }

    /// Between two records the other side may hang up.
    fn end(&self) -> io::Result<usize> {
        match self.sealed.is_empty() {
            true => Ok(0),
            false => Err(io::Error::new(io::ErrorKind::ConnectionAborted, CUT_OFF)),
        }
    }
}

const CUT_OFF: &str = "an encrypted connection ended in the midst of a record";

const CHANGED: &str =
    "what came over an encrypted connection was changed on its way, or is not what comes next";
