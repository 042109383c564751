//! What an unmount waits for, and what it leaves behind.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tests::cluster::Cluster;
use tests::processes::wait_until;

const MEBIBYTE: u64 = 1 << 20;

/// Longer than anything here takes on a busy machine, and much shorter than the grace period of a lost session.
pub const SOON: Duration = Duration::from_secs(30);

/// A process that was started beside the test, ended with it.
pub struct Beside(pub Child);

impl Beside {
    pub fn start(command: &mut Command) -> Beside {
        Beside(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes in use, as `df` tells.
fn used(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).expect("it is mounted");
    (stat.f_blocks - stat.f_bfree) * stat.f_frsize
}

#[track_caller]
fn space_is_free_at_once(nodes: &str, unmount: impl Fn(&Cluster, &str)) {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    let options = ["mount", text, "--capacity", "256MiB", "--nodes", nodes, "--volume", "directory"];
    cluster.forebay(&options).expect_success();
    let token = cluster.tokens().remove(0);
    fs::write(path.join("file"), vec![7; 64 << 20]).unwrap();
    unmount(&cluster, text);
    cluster.forebay(&["mount", text, "--token", &token]).expect_success();
    fs::remove_file(path.join("file")).unwrap();
    let free = wait_until(SOON, || used(&path) < MEBIBYTE);
    assert!(free, "{} bytes are in use where nothing is", used(&path));
    cluster.forebay(&["umount", text]).expect_success();
}

#[test]
fn what_is_removed_after_mounting_again_frees_its_space_at_once_with_one_node() {
    space_is_free_at_once("1", |cluster, path| {
        cluster.forebay(&["umount", path]).expect_success();
    });
}

#[test]
fn what_is_removed_after_mounting_again_frees_its_space_at_once_with_three_nodes() {
    space_is_free_at_once("3", |cluster, path| {
        cluster.forebay(&["umount", path]).expect_success();
    });
}

#[test]
fn a_stage_worker_leaves_no_space_that_is_not_free_at_once() {
    space_is_free_at_once("2", |cluster, path| {
        let source = cluster.pfs("pfs").join("input");
        fs::write(&source, vec![5; 8 << 20]).unwrap();
        let staged = Path::new(path).join("input");
        let words = ["stage", "in", source.to_str().unwrap(), staged.to_str().unwrap(), "--wait"];
        cluster.forebay(&words).expect_success();
        fs::remove_file(staged).unwrap();
        cluster.forebay(&["umount", path]).expect_success();
    });
}

#[test]
fn a_mount_that_somebody_unmounted_by_hand_leaves_no_space_that_is_not_free_at_once() {
    space_is_free_at_once("2", |cluster, path| {
        let mount = cluster.process("forebay-mount", "");
        let words: &[&str] =
            if rustix::process::geteuid().is_root() { &["umount"] } else { &["fusermount3", "-u"] };
        assert!(Command::new(words[0]).args(&words[1..]).arg(path).status().unwrap().success());
        assert!(wait_until(SOON, || !mount.is_alive()));
        cluster.forebay(&["umount", path]).expect_success();
    });
}

/// What `flock FILE forebay mount ...` needs: the lock ends with the command, not with the services that it started.
#[test]
fn a_lock_that_the_caller_holds_open_is_not_held_by_what_it_started() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let lock = cluster.folder().join("lock");
    let mount =
        cluster.command(&["mount", path.to_str().unwrap(), "--capacity", "64MiB", "--volume", "directory"]);
    let mut command = Command::new("flock");
    command.arg(&lock).arg(mount.get_program()).args(mount.get_args()).current_dir(&cluster.work);
    cluster.spawn(command).wait().expect_success();
    let holds = |pid: i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == lock))
    };
    let services = cluster.processes();
    assert!(services.iter().any(|service| service.program() == "forebay-mount"), "{services:#?}");
    let holders: Vec<&str> =
        services.iter().filter(|service| holds(service.pid)).map(|service| service.program()).collect();
    assert!(holders.is_empty(), "{holders:?} hold what the caller had open");
    let again = fs::File::open(&lock).unwrap();
    flock(&again, FlockOperation::NonBlockingLockExclusive).expect("whoever took the lock has let go of it");
    cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
}

#[test]
fn a_buffer_that_a_program_uses_is_unmounted_by_force_only() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    let file = path.join("file");
    let mut command = Command::new("sh");
    let mut user = Beside::start(command.args(["-c", "exec sleep 60 > \"$0\""]).arg(&file));
    assert!(wait_until(SOON, || file.exists()));
    let refused = cluster.forebay(&["umount", text]);
    assert_eq!(refused.code(), 75, "{}", refused.stderr);
    let pid = format!("(process {})", user.0.id());
    assert!(refused.stderr.contains(&pid) && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert!(user.lives() && cluster.mounts().contains(&path));
    fs::write(path.join("other"), "still mounted").unwrap();
    cluster.forebay(&["umount", text, "--force"]).expect_success();
    assert!(!cluster.mounts().contains(&path));
}

/// Whether a program gets a lock on a whole file now.
fn locks(file: &Path) -> bool {
    let try_it = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+'),fcntl.LOCK_EX|fcntl.LOCK_NB)";
    let mut command = Command::new("python3");
    command.args(["-c", try_it]).arg(file).stderr(Stdio::null()).status().unwrap().success()
}

#[track_caller]
fn has_several_mounts(volume: &str, nodes: &str) {
    let cluster = Cluster::new();
    let [first, second] = ["first", "second"].map(|name| cluster.pfs(name));
    let [one, two] = [&first, &second].map(|path| path.to_str().unwrap());
    let new = ["--capacity", "64MiB", "--volume", volume, "--nodes", nodes, "--shared"];
    cluster.forebay(&[&["mount", one][..], &new].concat()).expect_success();
    let token = cluster.tokens().remove(0);
    let shown = || cluster.mounts().iter().filter(|at| **at == first || **at == second).count();
    cluster.forebay(&["mount", two, "--token", &token]).expect_success();
    assert_eq!(shown(), 2);
    let devices = [&first, &second].map(|path| fs::metadata(path).unwrap().dev());
    assert_ne!(devices[0], devices[1], "they are two mounts");
    let status = cluster.status().to_string();
    assert!(status.contains(one) && status.contains(two), "{status}");

    // Each sees at once what the other does, also through files that it has open and names that it has looked at.
    for (round, (here, there)) in [(&first, &second), (&second, &first)].into_iter().enumerate() {
        let [file, seen] = [here, there].map(|path| path.join(format!("file-{round}")));
        assert!(!seen.exists());
        fs::write(&file, "first words").unwrap();
        assert_eq!(fs::read_to_string(&seen).unwrap(), "first words");
        let reader = fs::File::open(&seen).unwrap();
        let mut bytes = [0; 5];
        for word in ["other", "third"] {
            fs::OpenOptions::new().write(true).open(&file).unwrap().write_at(word.as_bytes(), 0).unwrap();
            reader.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, word.as_bytes());
        }
        let holder = "import fcntl,sys,time; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX); \
                      open(sys.argv[1]+'.held','w'); time.sleep(60)";
        let holder = Beside::start(Command::new("python3").args(["-c", holder]).arg(&file));
        assert!(wait_until(SOON, || there.join(format!("file-{round}.held")).exists()));
        assert!(!locks(&seen), "a lock holds in the other mount");
        drop(holder);
        assert!(wait_until(SOON, || locks(&seen)), "the lock ends with its holder");
        fs::remove_file(&file).unwrap();
        assert!(!seen.exists());
    }

    // Each is unmounted by itself, whichever came first.
    fs::write(first.join("kept"), "kept").unwrap();
    cluster.forebay(&["umount", one]).expect_success();
    assert_eq!((shown(), fs::read_to_string(second.join("kept")).unwrap().as_str()), (1, "kept"));
    assert_ne!(cluster.forebay(&["umount", one]).code(), 0, "it is not mounted there");
    cluster.forebay(&["mount", one, "--token", &token]).expect_success();
    cluster.forebay(&["umount", two]).expect_success();
    assert_eq!((shown(), fs::read_to_string(first.join("kept")).unwrap().as_str()), (1, "kept"));
    cluster.forebay(&["umount", one]).expect_success();
    assert_eq!((shown(), cluster.tokens()), (0, vec![token.clone()]));
    cluster.forebay(&["rm", &token]).expect_success();
    cluster.assert_nothing_left();
}

#[test]
fn a_buffer_is_mounted_at_several_places_of_one_machine_with_one_node() {
    has_several_mounts("directory", "1");
}

#[test]
fn a_buffer_is_mounted_at_several_places_of_one_machine_with_three_nodes() {
    has_several_mounts("directory", "3");
}

#[test]
fn a_buffer_that_a_mount_has_for_itself_is_mounted_nowhere_else() {
    let cluster = Cluster::new();
    let [first, second] = ["first", "second"].map(|name| cluster.pfs(name));
    let [one, two] = [&first, &second].map(|path| path.to_str().unwrap());
    cluster.forebay(&["mount", one, "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    let token = cluster.tokens().remove(0);
    fs::write(first.join("file"), "words").unwrap();
    let refused = cluster.forebay(&["mount", two, "--token", &token]);
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains(one) && refused.stderr.contains("--shared"), "{}", refused.stderr);
    assert_eq!(cluster.mounts().iter().filter(|at| **at == first || **at == second).count(), 1);
    assert_eq!(fs::read_to_string(first.join("file")).unwrap(), "words");
    // As it is told.
    cluster.forebay(&["umount", one]).expect_success();
    cluster.forebay(&["mount", one, "--token", &token, "--shared"]).expect_success();
    cluster.forebay(&["mount", two, "--token", &token]).expect_success();
    assert_eq!(fs::read_to_string(second.join("file")).unwrap(), "words");
    cluster.forebay(&["umount", two]).expect_success();
    cluster.forebay(&["umount", one]).expect_success();
}

mod root_only {
    use super::*;

    #[test]
    fn a_buffer_is_mounted_at_several_places_of_one_machine_with_an_image() {
        has_several_mounts("image", "1");
    }

    /// A process in a mount namespace of its own, which has a copy of every mount.
    fn in_another_namespace(script: &str) -> Beside {
        let mut command = Command::new("unshare");
        let beside = Beside::start(command.args(["--mount", "sh", "-c", script]));
        let other = format!("/proc/{}/ns/mnt", beside.0.id());
        let own = fs::read_link("/proc/self/ns/mnt").unwrap();
        assert!(wait_until(SOON, || fs::read_link(&other).is_ok_and(|other| other != own)));
        beside
    }

    #[track_caller]
    fn umount_waits_for_nobody(volume: &str, nodes: &str) {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let text = path.to_str().unwrap();
        let options = ["mount", text, "--capacity", "64MiB", "--volume", volume, "--nodes", nodes];
        cluster.forebay(&options).expect_success();
        fs::write(path.join("file"), "kept").unwrap();
        let mut beside = in_another_namespace("exec sleep 60");
        cluster.forebay(&["umount", text]).expect_success();
        assert!(beside.lives(), "umount waited until nobody had a copy of the mount");
        assert!(!cluster.mounts().contains(&path));
        // Who kept the copy is told that it is gone, and what was in it is kept.
        let copy = format!("/proc/{}/root{text}/file", beside.0.id());
        assert!(fs::read(copy).is_err(), "a mount that is gone still reads");
        drop(beside);
        let token = cluster.tokens().remove(0);
        cluster.forebay(&["mount", text, "--token", &token]).expect_success();
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "kept");
        cluster.forebay(&["umount", text]).expect_success();
    }

    #[test]
    fn umount_does_not_wait_for_a_namespace_that_copied_the_mount_with_a_folder() {
        umount_waits_for_nobody("directory", "2");
    }

    #[test]
    fn umount_does_not_wait_for_a_namespace_that_copied_the_mount_with_an_image() {
        umount_waits_for_nobody("image", "1");
    }

    #[test]
    fn the_end_of_a_job_does_not_wait_for_a_namespace_that_copied_its_mount() {
        let cluster = Cluster::new();
        let pid = cluster.work.join("pid");
        let target = cluster.pfs("pfs").join("result");
        let script = format!(
            "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/result destination={}\n\
             echo done > $DW_JOB_STRIPED/result\n\
             setsid unshare --mount sh -c 'echo $$ > {p}.new && mv {p}.new {p} && exec sleep 60' &\n\
             while [ ! -e {p} ]; do sleep 0.05; done\n",
            target.display(),
            p = pid.display()
        );
        cluster.run(&script, &["--volume", "directory"]).expect_success();
        assert_eq!(fs::read_to_string(target).unwrap(), "done\n");
        let pid = fs::read_to_string(pid).unwrap();
        let sleeper = Path::new("/proc").join(pid.trim());
        assert!(
            fs::read(sleeper.join("cmdline")).is_ok_and(|line| !line.is_empty()),
            "the job's end waited until nobody had a copy of its mount"
        );
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
        assert!(wait_until(SOON, || fs::read(sleeper.join("cmdline")).is_ok_and(|line| line.is_empty())
            || !sleeper.exists()));
    }
}
