//! Whether the node's flash has failed: what it shows after it was mounted anew may then be zeros, or older than what
//! was drained, and it takes no note of that itself. So the note is on the PFS:
//!
//! ```text
//! TO/.forebay-drain/HOST.INODE-BORN.flash-failed     {"from","time","why"}: of the drained folder, whichever host's
//! ```
//!
//! The kernel tells of a file what it could not write back only while it has the file in memory, and only the first who
//! asks. Of the file system as a whole it tells each who has it open (syncfs, Linux 5.8), whatever was told of files.
//!
//! **Invariant:** once it has failed, nothing is called drained by this drainer, and none that is started later drains
//! the folder, under whatever name of the host, until somebody has removed the note.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use anyhow::{Context, bail};
use disk::below::Root;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use wire::without_numbers;

use crate::status::Trouble;
use crate::top::Top;

/// How the names of the notes end.
const NOTE: &str = ".flash-failed";

/// What a device that fails gives, and a file system on one: EUCLEAN and EBADMSG for what it finds damaged. EREMOTEIO
/// is not here, though a device may give it: a file that is lost is told by it.
const OF_DEVICES: [Errno; 10] = [
    Errno::IO,
    Errno::ROFS,
    Errno::UCLEAN,
    Errno::BADMSG,
    Errno::NXIO,
    Errno::NODEV,
    Errno::SHUTDOWN,
    Errno::NOLINK,
    Errno::TIMEDOUT,
    Errno::ILSEQ,
];

/// The file system of the drained folder.
pub(crate) struct Flash {
    /// It is told of all that could not be written since it was opened, or before if nobody was told.
    top: OwnedFd,
    from: PathBuf,
    /// On the PFS; of every drainer.
    folder: PathBuf,
    /// In it, of this one.
    note: PathBuf,
    mark: Mark,
    failed: Mutex<Option<Failed>>,
}

/// Which names notes of the drained folder have.
enum Mark {
    /// They end so; what is this name was noted when nobody could tell which folder it was of.
    Folder { end: String, unknown: String },
    /// Nobody can tell: all that begin so, those of this host.
    Host(String),
}

struct Failed {
    why: String,
    is_noted: bool,
    /// How often.
    count: u64,
}

#[derive(Serialize, Deserialize)]
struct Note {
    from: String,
    time: String,
    why: String,
}

impl Flash {
    /// That of `top`; notes of it are in the drainers' `folder` on the PFS.
    ///
    /// # Errors
    /// It has failed before, or nobody can tell.
    pub(crate) fn open(top: &Top, folder: &Path, host: &str) -> anyhow::Result<Flash> {
        let from = top.path().to_owned();
        let (name, mark) = match top.identity() {
            Some((ino, (seconds, nanoseconds))) => {
                let end = format!(".{ino}-{seconds}.{nanoseconds}{NOTE}");
                (format!("{host}{end}"), Mark::Folder { end, unknown: format!("{host}{NOTE}") })
            }
            None => (format!("{host}{NOTE}"), Mark::Host(format!("{host}."))),
        };
        let top = top.opened().with_context(|| format!("open {}", from.display()))?;
        let (note, folder) = (folder.join(name), folder.to_owned());
        let flash = Flash { top, from, folder, note, mark, failed: Mutex::default() };
        let notes = flash.notes().with_context(|| format!("list {}", flash.folder.display()))?;
        if let Some(note) = notes.first() {
            let why = flash.read(note).with_context(|| format!("read {}", note.display()))?;
            let Trouble { message, advice, .. } = flash.told(&why, note);
            bail!("{message}; {advice}");
        }
        Ok(flash)
    }

    /// Where nothing was drained yet and nothing is there but `own`: what was lost before is no loss of the job's.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub(crate) fn forget(&self, own: &OsStr) -> io::Result<()> {
        let own = [OsStr::new("."), OsStr::new(".."), own].map(|name| CString::new(name.as_bytes()).ok());
        let is_empty = || -> io::Result<bool> {
            let mut names = Dir::read_from(&self.top)?;
            Ok(names.all(|entry| entry.is_ok_and(|entry| own.contains(&Some(entry.file_name().to_owned())))))
        };
        if !is_empty()? {
            return Ok(());
        }
        let Err(errno) = self.sync() else { return Ok(()) };
        // The job may have written meanwhile, and nobody is told again.
        if is_empty()? {
            let from = self.from.display();
            tracing::warn!("sync the file system of {from}: {errno}; it was so before this drain");
        } else {
            self.fail(&unwritten(errno));
        }
        Ok(())
    }

    /// Asks it; to be called after each file was asked for its own errors. Gives what is to be told of a failure, now
    /// or from before.
    pub(crate) fn look(&self) -> Option<Trouble> {
        self.take_as_it_is();
        if let Err(errno) = self.sync() {
            self.fail(&unwritten(errno));
        }
        self.retry();
        self.trouble()
    }

    /// What the kernel tells is what the disk said, or the server: a medium error is ENODATA, for one.
    fn sync(&self) -> rustix::io::Result<()> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        if !model::kernel::syncfs_reports_errors(&release) {
            return Ok(());
        }
        loop {
            match rustix::fs::syncfs(&self.top) {
                Err(Errno::INTR) => {}
                // Such a file system cannot be asked.
                Err(Errno::NOSYS | Errno::PERM) => return Ok(()),
                told => return told,
            }
        }
    }

    /// Forgets the failure if somebody has removed the note of it since.
    fn take_as_it_is(&self) {
        let Some(count) = self.lock().as_ref().filter(|failed| failed.is_noted).map(|failed| failed.count)
        else {
            return;
        };
        // Where the drainers' folder is not there either, the PFS may be away.
        let is_removed =
            disk::is_folder(&self.folder).unwrap_or(false) && disk::exists(&self.note).is_ok_and(|it| !it);
        let mut failed = self.lock();
        if is_removed && failed.as_ref().is_some_and(|failed| failed.count == count) {
            tracing::warn!("{} was removed: the flash is drained as it is", self.note.display());
            *failed = None;
        }
    }

    /// Something else than reading a file has failed with this.
    pub(crate) fn suspect(&self, errno: Errno) {
        if OF_DEVICES.contains(&errno) {
            self.fail(&io::Error::from(errno).to_string());
        }
    }

    /// It has failed.
    pub(crate) fn fail(&self, why: &str) {
        let mut failed = self.lock();
        if let Some(failed) = failed.as_mut() {
            // Somebody may have removed the note meanwhile.
            (failed.is_noted, failed.count) = (false, failed.count + 1);
            return;
        }
        tracing::error!("the node's flash has failed at {}: {why}", self.from.display());
        *failed = Some(Failed { why: without_numbers(why), is_noted: false, count: 1 });
        drop(failed);
        self.retry();
    }

    /// Notes it where that could not be noted yet. Whoever asks what is noted does not wait for the PFS.
    pub(crate) fn retry(&self) {
        let is_unnoted = |failed: &&Failed| !failed.is_noted;
        let unnoted =
            self.lock().as_ref().filter(is_unnoted).map(|failed| (failed.why.clone(), failed.count));
        let Some((why, count)) = unnoted else { return };
        match self.write(&why) {
            Ok(()) => {
                // Since the next failure somebody may have removed it.
                if let Some(failed) = self.lock().as_mut().filter(|failed| failed.count == count) {
                    failed.is_noted = true;
                }
            }
            Err(error) => {
                tracing::warn!("note in {} that the flash has failed: {error}", self.note.display())
            }
        }
    }

    /// What is to be told of a failure.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.lock().as_ref().map(|failed| self.told(&failed.why, &self.note))
    }

    fn told(&self, why: &str, note: &Path) -> Trouble {
        let (from, note) = (self.from.display(), note.display());
        Trouble {
            path: ".".to_owned(),
            errno: Errno::IO.raw_os_error(),
            message: format!(
                "{from}: the node's flash has failed ({why}): files there may have zeros, or be older than what was \
                 drained, and nobody knows which"
            ),
            advice: format!(
                "look at the node's flash (dmesg), and compare what was drained with what the job should have \
                 written; to drain what is there as it is, remove {note} and start the drain again"
            ),
        }
    }

    /// Those of the drained folder.
    fn notes(&self) -> io::Result<Vec<PathBuf>> {
        let Some(names) = disk::if_there(std::fs::read_dir(&self.folder))? else { return Ok(Vec::new()) };
        let is_of_this = |name: &str| match &self.mark {
            Mark::Folder { end, unknown } => name.ends_with(end) || name == unknown,
            Mark::Host(begin) => name.starts_with(begin) && name.ends_with(NOTE),
        };
        let mut notes = Vec::new();
        for entry in names {
            let path = entry?.path();
            if path.file_name().and_then(OsStr::to_str).is_some_and(is_of_this) || path == self.note {
                notes.push(path);
            }
        }
        Ok(notes)
    }

    /// Why it has failed, as noted.
    fn read(&self, note: &Path) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.opened(note, OFlags::RDONLY, Mode::empty())?.read_to_end(&mut bytes)?;
        Ok(match serde_json::from_slice::<Note>(&bytes) {
            Ok(Note { time, why, .. }) => format!("{time}: {why}"),
            Err(_) => "the note of it is damaged".to_owned(),
        })
    }

    fn write(&self, why: &str) -> io::Result<()> {
        let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let note = Note { from: self.from.display().to_string(), time, why: why.to_owned() };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mut file = self.opened(&self.note, flags, Mode::from_raw_mode(0o666))?;
        file.write_all(&serde_json::to_vec(&note)?).and_then(|()| file.sync_all())?;
        // The name may be new.
        disk::sync_names(&self.note)
    }

    fn opened(&self, note: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        Root::at(&self.folder).open_file(note, flags, mode)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failed>> {
        self.failed.lock().expect("no thread panics with the lock")
    }
}

fn unwritten(errno: Errno) -> String {
    format!("it could not write back something: {}", io::Error::from(errno))
}
