//! Processes and process groups that outlive the `forebay` that started them: recognised by more than their number,
//! which the kernel gives out again.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

/// How long a group may take to end after SIGTERM before SIGKILL.
pub const TERMINATION: Duration = Duration::from_secs(5);

/// How long execve(2) may take: a process that does not show its marks for longer has none.
const REPLACEMENT: Duration = Duration::from_millis(200);

/// How often to look at the process meanwhile, at least: on a busy machine that time may pass without us.
const LOOKS_MIN: u32 = 20;

/// A process group, by the identity of its leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The leader's process id, which is the group's.
    pub leader: i32,
    /// When the leader started, clock ticks since boot (field 22 of proc_pid_stat(5)).
    pub start_time: u64,
    /// Which boot.
    pub boot: String,
}

impl Group {
    /// The group that the living process `leader` leads.
    pub fn led_by(leader: u32) -> Option<Group> {
        let leader = i32::try_from(leader).ok()?;
        Some(Group { leader, start_time: start_time(leader)?, boot: boot()? })
    }

    /// Whether processes of this very group are alive. `marks` (`NAME=VALUE`) are in the environment of each: they tell
    /// when the leader is gone and only its children are left.
    pub fn alive(&self, marks: &[String]) -> bool {
        if boot().as_deref() != Some(&self.boot) {
            return false;
        }
        match start_time(self.leader) {
            Some(start) => start == self.start_time,
            // While members are left the kernel does not give the leader's number out again.
            None => self.has_marked_member(marks),
        }
    }

    fn has_marked_member(&self, marks: &[String]) -> bool {
        let until = Instant::now() + REPLACEMENT;
        for looks in 1.. {
            if members(self.leader).any(|pid| marked(pid, marks)) {
                return true;
            }
            // The kernel shows no environment, or a part, while execve(2) puts another program in a process's place.
            if !self.runs() || (looks >= LOOKS_MIN && Instant::now() > until) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Sends `signal` to each process of the group. Call it on groups that we started, or that are [`Group::alive`].
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.leader) {
            // The only error here is that all are gone already, which is what the caller wants.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Whether the group, which we started, has a process that can still do something: zombies cannot.
    pub fn runs(&self) -> bool {
        members(self.leader).any(|pid| !zombie(pid))
    }

    /// Ends the group: SIGTERM, and SIGKILL to what is left after `patience`.
    pub async fn end(&self, patience: Duration) {
        self.signal(Signal::TERM);
        // A stopped process takes SIGTERM only when it goes on.
        self.signal(Signal::CONT);
        if tokio::time::timeout(patience, self.gone()).await.is_err() {
            self.signal(Signal::KILL);
            // SIGKILL takes a moment to be delivered; a process in uninterruptible sleep is not worth more waiting.
            let _ = tokio::time::timeout(Duration::from_secs(2), self.gone()).await;
        }
    }

    async fn gone(&self) {
        while self.runs() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Fields of `/proc/PID/stat` from the third (the state) on: the second, the program's name, may hold anything.
fn stat(pid: i32) -> Option<Vec<String>> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(fields(&line)?.map(str::to_owned).collect())
}

fn fields(line: &str) -> Option<impl Iterator<Item = &str>> {
    let (_, rest) = line.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace())
}

fn start_time(pid: i32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}

fn zombie(pid: i32) -> bool {
    stat(pid).is_none_or(|fields| fields.first().is_some_and(|state| state == "Z" || state == "X"))
}

fn members(group: i32) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(move |pid| {
        stat(*pid).is_some_and(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(group))
    })
}

fn marked(pid: i32, marks: &[String]) -> bool {
    let Ok(environment) = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")) else {
        return false;
    };
    marks.iter().all(|mark| environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
}

fn boot() -> Option<String> {
    Some(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    fn group(script: &str) -> (Child, Group) {
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).env("MARK", "ours").process_group(0).spawn().unwrap();
        let group = Group::led_by(child.id()).unwrap();
        (child, group)
    }

    #[test]
    fn a_program_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let line = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        assert_eq!(fields(line).unwrap().nth(19), Some("4242"));
    }

    #[tokio::test]
    async fn a_group_is_recognised_until_it_has_ended() {
        let (mut child, group) = group("sleep 600 & wait");
        assert!(group.alive(&[]));
        group.end(TERMINATION).await;
        child.wait().unwrap();
        assert!(!group.alive(&[]));
        assert!(!group.runs());
    }

    #[tokio::test]
    async fn another_process_with_the_same_number_is_not_taken_for_the_leader() {
        let (mut child, group) = group("sleep 600 & wait");
        let other = Group { start_time: group.start_time + 1, ..group.clone() };
        assert!(!other.alive(&[]));
        let earlier = Group { boot: "another".into(), ..group.clone() };
        assert!(!earlier.alive(&[]));
        group.end(TERMINATION).await;
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn children_that_outlive_their_leader_are_known_by_their_environment() {
        let (mut child, group) = group("sleep 600 &");
        child.wait().unwrap();
        assert!(group.alive(&["MARK=ours".into()]));
        assert!(!group.alive(&["MARK=theirs".into()]));
        group.end(TERMINATION).await;
        assert!(!group.alive(&["MARK=ours".into()]));
    }

    #[tokio::test]
    async fn a_child_that_is_just_being_replaced_by_another_program_is_known() {
        // $0 is this very line: the child becomes the same shell over and over.
        let again = r#"exec sh -c "$0" "$0""#;
        let (mut child, group) = group(&format!("sh -c '{again}' '{again}' &"));
        child.wait().unwrap();
        let missed = (0..2000).filter(|_| !group.alive(&["MARK=ours".into()])).count();
        group.end(TERMINATION).await;
        assert_eq!(missed, 0, "of 2000 looks");
    }

    #[tokio::test]
    async fn a_group_that_ignores_sigterm_is_killed() {
        let (mut child, group) = group("trap '' TERM; while :; do sleep 600; done");
        group.end(Duration::from_millis(50)).await;
        child.wait().unwrap();
        assert!(!group.runs());
    }
}
