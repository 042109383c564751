//! Folders that others may rename while stages work below them: a link in the place of one leads nowhere.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tests::hosts::plain;

use tests::sharing::{ADA, GRACE, Site, contents};

/// Files of a stage, and of what an attacker wants them to replace.
const FILES: u32 = 600;

/// A folder that everybody may write to, and one that is ada's alone, with the same names.
fn folders(site: &Site) -> (PathBuf, PathBuf) {
    let pfs = site.pfs(ADA);
    let [open, private] = ["open", "private"].map(|name| pfs.join(name));
    for (folder, mode) in [(&open, 0o777), (&private, 0o700)] {
        fs::create_dir(folder).expect("ours");
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("ours");
        chown(folder, Some(ADA.id), Some(ADA.id)).expect("root may");
    }
    for number in 0..FILES {
        let file = private.join(number.to_string());
        fs::write(&file, "private\n").expect("ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
        chown(&file, Some(ADA.id), Some(ADA.id)).expect("root may");
    }
    (open, private)
}

/// What grace runs beside a stage; it ends with the test.
struct Beside(Child);

impl Beside {
    fn run(program: &str, arguments: &[&Path]) -> Beside {
        let id = GRACE.id.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "/usr/bin/python3", "-c", program]);
        let command = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("setpriv is there");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a pipe");
        assert_eq!(line, "ready\n");
        Beside(child)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        self.0.wait().expect("it is our child");
    }
}

/// Renames a folder as soon as it is there, and puts a link in its place.
const SWAP_ONCE: &str = "
import os, sys
sub, private = sys.argv[1:]
print('ready', flush=True)
while True:
    try:
        os.rename(sub, sub + '.away')
        os.symlink(private, sub)
        break
    except FileNotFoundError:
        pass
";

/// Swaps each folder of a folder with a link, to and fro.
const SWAP_ALWAYS: &str = "
import os, random, sys, time
folder, private = sys.argv[1:]
os.chdir(folder)
subs = [name for name in os.listdir('.') if os.path.isdir(name)]
print('ready', flush=True)
while True:
    for sub in subs:
        os.rename(sub, '.' + sub)
        os.symlink(private, sub)
    time.sleep(random.random() / 200)
    for sub in subs:
        os.unlink(sub)
        os.rename('.' + sub, sub)
    time.sleep(random.random() / 200)
";

pub fn staged_out(site: &Site) {
    let (open, private) = folders(site);
    let buffer = site.shared_buffer();
    let lines = format!(
        "#DW stage_out type=directory source=$DW_PERSISTENT_STRIPED_{buffer}/result destination={}",
        plain(&open)
    );
    let mut ada = site.session(ADA, &buffer, &lines);
    ada.data_in().expect_success();
    ada.mount();
    let make = format!(
        "mkdir -p $B/result/sub; cd $B/result/sub; for i in $(seq 0 {}); do echo new > $i; done",
        FILES - 1
    );
    ada.run(&make).expect_success();
    let beside = Beside::run(SWAP_ONCE, &[&open.join("sub"), &private]);
    let outcome = ada.data_out();
    drop(beside);
    let touched = (0..FILES).filter(|number| {
        let file = private.join(number.to_string());
        let mode = fs::metadata(&file).expect("it is there").permissions().mode() & 0o777;
        (contents(&file).as_deref(), mode) != (Some("private\n"), 0o600)
    });
    assert_eq!(touched.count(), 0, "private files are not what they were");
    assert_eq!(
        fs::read_dir(&private).expect("ours").count(),
        FILES as usize,
        "files are left in a private folder"
    );
    assert!(fs::symlink_metadata(open.join("sub")).expect("grace has put it there").is_symlink());
    assert!(!outcome.status.success(), "the stage says that all is there: {}", outcome.stdout);
    assert!(outcome.stdout.contains("symbolic link"), "{}", outcome.stdout);
    ada.end();
    site.destroy(&buffer);
}

pub fn staged_in(site: &Site) {
    let (open, private) = folders(site);
    for number in 0..40 {
        let folder = open.join(format!("s{number}"));
        fs::create_dir(&folder).expect("ours");
        fs::write(folder.join("f"), "f\n").expect("ours");
        chown(&folder, Some(ADA.id), Some(ADA.id)).expect("root may");
    }
    let buffer = site.shared_buffer();
    let lines = format!(
        "#DW stage_in type=directory source={} destination=$DW_PERSISTENT_STRIPED_{buffer}/in",
        plain(&open)
    );
    let beside = Beside::run(SWAP_ALWAYS, &[&open, &private]);
    let stage = site.session(ADA, &buffer, &lines);
    for _ in 0..5 {
        // It may fail: folders come and go.
        stage.data_in();
    }
    drop(beside);
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    let found = ada.run("find $B/in -type f ! -name f | wc -l; find $B/in -name f | wc -l");
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(lines[0], "0", "what is outside of the source was staged in");
    assert_ne!(lines[1], "0", "nothing was staged in");
    ada.end();
    stage.end();
    site.destroy(&buffer);
}

pub fn outside(site: &Site) {
    let pfs = site.pfs(ADA);
    std::os::unix::fs::symlink("/etc", pfs.join("link")).expect("ours");
    let buffer = site.shared_buffer();
    for source in [Path::new("/etc/hostname"), &pfs.join("link/hostname"), Path::new("/proc/version")] {
        let destination = format!("$DW_PERSISTENT_STRIPED_{buffer}/in");
        let line = format!("#DW stage_in type=file source={} destination={destination}", source.display());
        let ada = site.session(ADA, &buffer, &line);
        let outcome = ada.data_in();
        assert!(
            !outcome.status.success() && outcome.stdout.contains("stages reach only"),
            "{}",
            outcome.stdout
        );
        ada.end();
    }
    site.destroy(&buffer);
}
