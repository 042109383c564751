//! A handshake does not take for ever.

use std::io::{self, Read, Write};
use std::time::Instant;

use wire::data::Stream;

/// A stream that fails when its time is over, however many small pieces come in.
pub(super) struct Hurried<'a> {
    pub(super) stream: &'a mut Stream,
    pub(super) until: Instant,
}

impl Hurried<'_> {
    fn hurry(&mut self) -> io::Result<&mut Stream> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_timeout(Some(left))?;
        Ok(self.stream)
    }
}

impl Read for Hurried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.hurry()?.read(buffer)
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hurry()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
