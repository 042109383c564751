//! Processes that a node started, perhaps in an earlier life of its own.
//!
//! A process id alone is not enough after a restart, as the kernel gives it out again: the boot and the start time
//! go with it. A [`Process`] holds a pidfd, so what is signalled is what was meant.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Pause between two looks at a process that cannot be looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long programs that a process started may outlive it. More than any of ours takes, bounded as a zombie that
/// nobody waits for counts as well.
const HELPERS_END_WITHIN: Duration = Duration::from_secs(5);

/// A process that may have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// The kernel's number.
    pub pid: u32,
    /// When it started, clock ticks since the boot (proc(5), field 22 of stat).
    start_ticks: u64,
    /// Which boot.
    boot: String,
}

kept::own_forms!(ProcessId);

impl ProcessId {
    /// The process that has the number `pid` now.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn of(pid: u32) -> io::Result<ProcessId> {
        let (state, id) = ProcessId::look(pid)?;
        if matches!(state, 'Z' | 'X') { Err(io::ErrorKind::NotFound.into()) } else { Ok(id) }
    }

    /// The same for a child that was not waited for, which may have ended.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub(crate) fn of_child(pid: u32) -> io::Result<ProcessId> {
        Ok(ProcessId::look(pid)?.1)
    }

    fn look(pid: u32) -> io::Result<(char, ProcessId)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (state, start_ticks) = parse_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok((state, ProcessId { pid, start_ticks, boot }))
    }

    /// A hold on the process; `None` when it has ended. Where that cannot be told (EMFILE, ENOMEM) it is asked again
    /// until it can: who takes a process that lives for a dead one does its work a second time, and ends what it
    /// serves.
    pub(crate) async fn open(&self) -> Option<Process> {
        let mut told = false;
        loop {
            match self.try_open() {
                Ok(found) => return found,
                Err(error) if !told => {
                    let pid = self.pid;
                    tracing::error!(pid, %error, "cannot tell whether a process lives; the node keeps asking the \
                                                  kernel");
                    told = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Completes when the programs that it started have ended as well: `fusermount3` mounts also for a process that was
    /// killed meanwhile. It must have been started in a process group of its own.
    pub(crate) async fn helpers_ended(&self) {
        let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        let gone = async {
            while test_kill_process_group(group) != Err(Errno::SRCH) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(HELPERS_END_WITHIN, gone).await;
    }

    fn try_open(&self) -> io::Result<Option<Process>> {
        let Some(process) = if_it_lives(Process::of_child(self.pid))? else { return Ok(None) };
        // Asked after the pidfd is ours: from here on the number cannot go to another process unseen.
        let now = if_it_lives(ProcessId::of(self.pid))?;
        Ok(now.filter(|now| now == self).map(|_| process))
    }
}

/// The result, or `None` where the error says that there is no such process.
fn if_it_lives<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error)
            if disk::is_absent(&error)
                || error.kind() == io::ErrorKind::InvalidInput
                || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            Ok(None)
        }
        looked => looked.map(Some),
    }
}

/// State and start time out of `/proc/PID/stat`. The program's name in it may hold spaces and parentheses.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3 of proc(5), the start time field 22.
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// A process that had not ended when it was opened.
#[derive(Debug)]
pub(crate) struct Process {
    pidfd: AsyncFd<OwnedFd>,
}

impl Process {
    /// A hold on a child that was not waited for. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// No process has the number.
    pub(crate) fn of_child(pid: u32) -> io::Result<Process> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        #[expect(
            deprecated,
            reason = "unsound only for types whose descriptor changes or is not their own, not OwnedFd"
        )]
        let pidfd = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
        Ok(Process { pidfd })
    }

    /// Completes when the process has ended.
    pub(crate) async fn ended(&self) {
        // A pidfd is readable once its process has ended (pidfd_open(2)); an error would mean that it is no pidfd.
        let _ = self.pidfd.readable().await;
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end, and to wait for nobody.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Ends it.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // Fails only when the process has ended, which is what the caller wants.
        let _ = pidfd_send_signal(self.pidfd.get_ref(), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let fields: Vec<String> = (4..=22).map(|n| n.to_string()).collect();
        assert_eq!(parse_stat(&format!("7 (a) b) S {} 23", fields.join(" "))), Some(('S', 22)));
    }

    #[tokio::test]
    async fn a_killed_process_ends_and_cannot_be_opened_again() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        let process = id.open().await.unwrap();
        process.kill();
        process.ended().await;
        assert!(id.open().await.is_none(), "a zombie has ended");
        child.wait().unwrap();
        assert!(id.open().await.is_none());
    }

    #[tokio::test]
    async fn the_same_number_with_another_start_is_another_process() {
        let mut id = ProcessId::of(std::process::id()).unwrap();
        assert!(id.open().await.is_some());
        id.start_ticks += 1;
        assert!(id.open().await.is_none());
    }
}
