//! Starting other processes of ours, so that they outlive their starter.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::fs::{Mode, OFlags};

/// The program `name` in the folder of this process's own program. Every Forebay program is installed in one folder.
///
/// # Errors
/// `NotFound`, naming the path, when there is none.
pub fn sibling(name: &str) -> io::Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| {
        io::Error::new(error.kind(), format!("find this program by /proc/self/exe: {error}"))
    })?;
    let path = sibling_of(&own, name);
    if disk::is_file(&path)? {
        return Ok(path);
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("{} is not there: install Forebay whole", path.display()),
    ))
}

/// A program that was replaced on disk while it runs reads as `PATH (deleted)`; the folder is right all the same. Tests
/// live in a `deps` folder below the programs.
fn sibling_of(own: &Path, name: &str) -> PathBuf {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.join(name)
}

/// Starts `command` so that it outlives us and neither ^C nor the terminal's end reaches it: its own process group,
/// standard input from `/dev/null`, standard output and error appended to `log` (made 0600). Returns its process id.
///
/// It is reaped when it ends while we live.
///
/// # Errors
/// The log could not be opened or the program not started.
pub fn detached(command: &mut Command, log: &Path) -> io::Result<u32> {
    reaped(start(command, log, Stdio::null())?)
}

/// The same, but for its standard input: the process is attended (see [`crate::attended`]) by who holds the other end.
///
/// # Errors
/// As there.
pub fn attended(command: &mut Command, log: &Path) -> io::Result<(u32, ChildStdin)> {
    let mut child = start(command, log, Stdio::piped())?;
    let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((reaped(child)?, input))
}

fn start(command: &mut Command, log: &Path, input: Stdio) -> io::Result<Child> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let output = disk::regular::open(log, flags, Mode::from_raw_mode(0o600))?;
    let errors = output.try_clone()?;
    // A process group of its own is enough: a terminal signals only its foreground group, and services ignore SIGHUP
    // besides. `setsid` would need unsafe code between fork and exec.
    command
        .process_group(0)
        .stdin(input)
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .current_dir("/")
        .spawn()
}

fn reaped(mut child: Child) -> io::Result<u32> {
    let pid = child.id();
    std::thread::Builder::new().name(format!("reap-{pid}")).spawn(move || child.wait())?;
    Ok(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_of_tests_are_the_built_programs() {
        assert_eq!(
            sibling_of(Path::new("/o/release/deps/x-1"), "forebay-node"),
            Path::new("/o/release/forebay-node")
        );
        assert_eq!(
            sibling_of(Path::new("/usr/bin/forebay"), "forebay-node"),
            Path::new("/usr/bin/forebay-node")
        );
    }

    #[test]
    fn a_detached_process_appends_to_its_log_and_is_reaped() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "before\n").unwrap();
        let pid = detached(Command::new("sh").args(["-c", "echo out; echo err >&2"]), &log).unwrap();
        while disk::exists(Path::new(&format!("/proc/{pid}"))).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "before\nout\nerr\n");
    }
}
