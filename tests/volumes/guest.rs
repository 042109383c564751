//! The other kernel: a user-mode Linux with two disks.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::TempDir;
use tests::processes::wait_until;

/// What the guest says when all is as it shall be found, and it may be killed.
pub const READY: &str = "everything is as the power cut shall find it";

/// A guest that takes longer hangs.
const LIFE_LIMIT: Duration = Duration::from_secs(120);

/// Each disk's size: sparse files.
const DISK_BYTES: u64 = 1 << 30;

/// What prepares the guest's system, with `@` where this test's own folder is, and runs this program in it. Programs
/// are reached through `/run/programs`: their folder may be where only root can read.
const INIT: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LVM_SYSTEM_DIR=@/lvm
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
[ -e /dev/ubda ] || mount -t devtmpfs devtmpfs /dev
ip link set lo up
insmod "$(find /usr/lib/uml/modules -name dm-mod.ko)"
mkdir -p /run/flash /run/programs /run/disks
mknod /run/disks/ubda b 98 0
mount --bind "PROGRAMS" /run/programs
if [ "$LIFE" = first ]; then
    pvcreate --quiet /run/disks/ubda && vgcreate --quiet flash /run/disks/ubda
    mkfs.xfs -q /dev/ubdb
fi
mount -o prjquota /dev/ubdb /run/flash
/run/programs/deps/TEST "$LIFE"
# It never ends, unless it breaks.
halt -f
"#;

/// LVM without udev, and without anything of this machine's.
const LVM: &str = "devices { dir=\"/dev\" scan=[\"/run/disks\"] use_devicesfile=0 hints=\"none\" }\n\
    activation { udev_sync=0 udev_rules=0 monitoring=0 }\nbackup { backup=0 archive=0 }\n\
    global { locking_dir=\"/run/lvm\" }\n";

/// The guest's disks and what it boots with.
pub struct Guest {
    folder: TempDir,
}

impl Guest {
    pub fn new() -> Guest {
        let folder = tempfile::Builder::new().prefix("forebay-volumes-").tempdir_in("/var/tmp").unwrap();
        let path = folder.path();
        for disk in ["a", "b"] {
            File::create(path.join(disk)).unwrap().set_len(DISK_BYTES).unwrap();
        }
        fs::create_dir(path.join("lvm")).unwrap();
        fs::write(path.join("lvm/lvm.conf"), LVM).unwrap();
        let own = std::env::current_exe().unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let init = INIT
            .replace('@', &text(path))
            .replace("PROGRAMS", &text(&tests::cluster::program_folder()))
            .replace("TEST", &text(own.file_name().unwrap().as_ref()));
        fs::write(path.join("init"), init).unwrap();
        fs::set_permissions(path.join("init"), Permissions::from_mode(0o755)).unwrap();
        Guest { folder }
    }

    /// Boots it, shows what it says, and kills it as soon as it says that it is [`READY`]; gives the lines.
    pub fn boot(&self, life: &str) -> Vec<String> {
        let mut guest = self.start(life);
        let mut lines = Vec::new();
        let group = Pid::from_child(&guest);
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if end.recv_timeout(LIFE_LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                println!("the guest hangs");
                let _ = kill_process_group(group, Signal::KILL);
            }
        });
        for line in BufReader::new(guest.stdout.take().unwrap()).lines().map_while(Result::ok) {
            println!("{line}");
            let is_ready = line.contains(READY);
            lines.push(line);
            if is_ready {
                kill_process_group(group, Signal::KILL).unwrap();
            }
        }
        guest.wait().unwrap();
        // One of its processes writes to the disks.
        let is_gone = || test_kill_process_group(group).is_err();
        assert!(wait_until(Duration::from_secs(20), is_gone), "processes of the guest outlive it");
        drop(ended);
        watchdog.join().unwrap();
        lines
    }

    fn start(&self, life: &str) -> Child {
        let path = self.folder.path().display();
        let mut command = Command::new("linux.uml");
        command.args([
            "mem=1G",
            "rootfstype=hostfs",
            "rootflags=/",
            "rw",
            "con=null",
            "con0=fd:0,fd:1",
            "quiet",
        ]);
        command.arg(format!("init={path}/init")).arg(format!("uml_dir={path}"));
        command.arg(format!("ubd0={path}/a")).arg(format!("ubd1={path}/b")).arg(format!("LIFE={life}"));
        // Its memory is a file there.
        command.env("TMPDIR", self.folder.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("user-mode-linux is installed")
    }
}
