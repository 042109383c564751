//! A log that groups of whole lines are appended to.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use disk::below::Root;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// What each line of Spectral's log begins with.
pub(super) const SPECTRAL_BEGIN: &str = "Spectral Work ";

/// One log.
pub(super) struct Log {
    pub(super) file: File,
    /// The last line in it may be cut off.
    torn: bool,
}

impl Log {
    pub(super) fn open(path: &Path) -> std::io::Result<Log> {
        let root = Root::at(path.parent().unwrap_or(path));
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let file = root.open_file(path, flags, Mode::from_raw_mode(0o666)).map_err(|error| {
            let is_link = Errno::from_io_error(&error) == Some(Errno::LOOP);
            let advice = if is_link { " (it is a symbolic link; move it away)" } else { "" };
            std::io::Error::new(error.kind(), format!("open {}: {error}{advice}", path.display()))
        })?;
        Ok(Log { file, torn: false })
    }

    /// Sees whether it is a log of drains: nothing is appended to somebody's file that is only called so.
    pub(super) fn of_spectral(self, path: &Path) -> std::io::Result<Log> {
        let mut begin = [0; SPECTRAL_BEGIN.len()];
        let length =
            usize::try_from(self.file.metadata()?.len()).map_or(begin.len(), |len| len.min(begin.len()));
        self.file.read_exact_at(&mut begin[..length], 0)?;
        if SPECTRAL_BEGIN.as_bytes().starts_with(&begin[..length]) {
            return Ok(self);
        }
        let text = "exists, and no drain wrote it: move it away, the drain's log needs this name";
        Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, format!("{} {text}", path.display())))
    }

    /// Sees whether who wrote it last was killed in the middle of a line. Only where nobody else writes it.
    pub(super) fn with_torn_end(self) -> std::io::Result<Log> {
        Ok(Log { torn: !ends_a_line(&self.file)?, ..self })
    }

    pub(super) fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if std::mem::replace(&mut self.torn, true) {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(lines)?;
        self.torn = false;
        Ok(())
    }
}

/// Whether the last line of a file is whole, as far as its end tells.
pub(crate) fn ends_a_line(file: &File) -> std::io::Result<bool> {
    let mut last = [b'\n'];
    if let Some(place) = file.metadata()?.len().checked_sub(1) {
        file.read_exact_at(&mut last, place)?;
    }
    Ok(last == [b'\n'])
}
