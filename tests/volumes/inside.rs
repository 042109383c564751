//! What runs in the guest: a node service for each kind of volumes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tests::local_node::{LocalNode, USER};
use tests::processes::wait_until_told;
use tests::tree::bytes;

use crate::guest::READY;

/// How many tests there are, of all kinds in both lives.
pub const TESTS: usize = 2 * (FIRST.len() + SECOND.len());

/// What a volume holds where nobody says how much, and what XFS may add to that.
const CAPACITY: u64 = 196 << 20;
const SURPLUS: u64 = 120 << 20;

const KINDS: [&str; 2] = ["logical-volume", "project-quota"];

/// The disk that is mounted.
const FLASH: &str = "/run/flash";

const FILES: u64 = 10;

const PATIENCE: Duration = Duration::from_secs(20);

type Test = (&'static str, fn(&Site));

const FIRST: [Test; 5] = [
    ("is_its_users_alone_ends_at_its_capacity_and_leaves_the_reserve", sized),
    ("in_which_a_file_is_open_waits_until_that_is_closed_or_grows_no_more", busy),
    ("with_undrained_files_is_kept", kept),
    ("in_which_a_file_was_open_is_discarded", gone),
    ("of_a_running_job_is_mounted_when_the_power_goes", held),
];

const SECOND: [Test; 2] = [
    ("of_a_running_job_is_found_after_the_power_cut", found),
    ("with_undrained_files_is_drained_after_the_power_cut_and_discarded", drained),
];

/// A node with one kind of volumes.
struct Site {
    kind: &'static str,
    node: LocalNode,
}

pub fn first_life() {
    let sites = sites();
    run(&sites, &FIRST);
    wait_for_the_end();
}

pub fn second_life() {
    // What was in the way on the PFS is gone when the nodes start.
    for kind in KINDS {
        fs::remove_dir(Path::new(FLASH).join(kind).join("pfs/f3")).unwrap();
    }
    let sites = sites();
    run(&sites, &SECOND);
    wait_for_the_end();
}

/// The nodes go on until they are killed.
fn wait_for_the_end() -> ! {
    println!("{READY}");
    loop {
        std::thread::park();
    }
}

/// Whether the line says that a test has passed.
pub fn has_passed(line: &str) -> bool {
    line.starts_with("test ") && line.contains(" ... ok")
}

fn sites() -> Vec<Site> {
    let site = |kind: &'static str, more: &str| {
        let config = format!("local_kind = \"{kind}\"\n{more}\n");
        Site { kind, node: LocalNode::start_in(&Path::new(FLASH).join(kind), "200MiB", &config) }
    };
    vec![
        site(KINDS[0], "local_volume_group = \"flash\""),
        site(KINDS[1], "local_folder = \"/run/flash/volumes\""),
    ]
}

fn run(sites: &[Site], tests: &[Test]) {
    // The first fills a volume. With one disk and one processor that holds the start of a drainer on the other up for
    // 13 s; alone it takes 0.6 s.
    let (filling, others) = tests.split_at(1);
    sites.iter().for_each(|site| run_on(site, filling));
    // Beside each other: each waits now and then.
    std::thread::scope(|scope| {
        for site in sites {
            scope.spawn(|| run_on(site, others));
        }
    });
}

fn run_on(site: &Site, tests: &[Test]) {
    for (name, test) in tests {
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| test(site)));
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        let name = format!("a_{}_{name}", site.kind.replace('-', "_"));
        println!("test {name} ... {word} ({:.1} s)", started.elapsed().as_secs_f64());
        if result.is_err() {
            println!("{}\n{}", site.node.local(&["list"]).1, site.node.log());
        }
    }
}

fn sized(site: &Site) {
    let volume = site.node.create("1");
    let found = fs::metadata(&volume).unwrap();
    assert_eq!((found.uid(), found.permissions().mode() & 0o7777), (USER, 0o700));
    assert_eq!(fs::read_dir(&volume).unwrap().count(), 0);
    let options = Command::new("findmnt").args(["-no", "OPTIONS"]).arg(&volume).output().unwrap().stdout;
    let options = String::from_utf8(options).unwrap();
    assert!(options.contains("nosuid") && options.contains("nodev"), "{options}");

    let (neighbour, before) = (site.node.create_for("2", "bob"), room(&volume));
    let fill =
        format!("fallocate -l {CAPACITY} {0}/most; dd if=/dev/zero of={0}/rest bs=1M", volume.display());
    let filled = Command::new("setpriv")
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "sh", "-c", &fill])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&filled.stderr);
    assert!(said.contains("No space left on device"), "{said}");
    assert!(room(&volume) < 2 << 20, "{} bytes are left", room(&volume));
    assert!((CAPACITY..CAPACITY + SURPLUS).contains(&before), "{before} bytes");
    // It is nobody else's trouble.
    assert!(room(&neighbour) >= CAPACITY);
    fs::write(neighbour.join("file"), bytes(1, 1 << 20)).unwrap();

    let greedy = ["create", "3", "--user", "eve", "--uid", "4712", "--capacity", "900MiB"];
    let (made, said) = site.node.local(&greedy);
    assert!(!made && said.contains("16777216 are never handed out"), "{said}");
    for id in ["1", "2"] {
        assert!(site.node.local(&["release", id]).0);
    }
    site.node.wait_until_discarded();
    // What was renamed is deleted by a thread.
    assert!(wait_until_told(PATIENCE, || site.leftovers().is_empty()), "{:?}", site.leftovers());
}

fn busy(site: &Site) {
    let volume = site.node.create("4");
    assert_eq!(fs::read_dir(&volume).unwrap().count(), 0, "nothing of the last user is seen");
    let path = volume.join("open");
    let file = fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut &file, &bytes(4, 1 << 20)).unwrap();
    (0..1000).for_each(|number| fs::write(volume.join(number.to_string()), "x").unwrap());
    assert!(site.node.local(&["release", "4"]).0);
    if site.kind == KINDS[0] {
        let is_busy = || site.node.local(&["list"]).1.contains("in use");
        assert!(wait_until_told(PATIENCE, is_busy), "{}\n{}", site.node.local(&["list"]).1, site.node.log());
    } else {
        // Whoever has it open writes no more.
        let all_gone = || site.leftovers().is_empty();
        assert!(wait_until_told(PATIENCE, all_gone), "{:?}", site.leftovers());
        let grown = std::io::Write::write_all(&mut &file, &bytes(5, 8 << 20)).unwrap_err();
        assert_eq!(grown.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    }
    // What waited is tried again some seconds later: see `gone`.
}

fn gone(site: &Site) {
    let is_gone = || {
        let names = site.leftovers();
        !names.iter().any(|name| name.ends_with("-4")) && !site.node.local(&["list"]).1.contains("4: ")
    };
    assert!(wait_until_told(PATIENCE, is_gone), "{:?}", site.leftovers());
}

fn kept(site: &Site) {
    let volume = site.node.create("7");
    let (started, said) = site.node.drain(&["start"]);
    assert!(started, "{said}");
    assert!(site.node.drain(&["pause"]).0);
    for number in 0..FILES {
        let file = volume.join(format!("f{number}"));
        fs::write(&file, bytes(number, 100_000)).unwrap();
        std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
    }
    rustix::fs::syncfs(fs::File::open(&volume).unwrap()).unwrap();
    // Something on the PFS is in the way of one file.
    fs::create_dir(site.node.root().join("pfs/f3")).unwrap();
    assert!(site.node.local(&["release", "7"]).0);
    site.is_kept();
    assert!(!volume.exists(), "its user's job is over");
    rustix::fs::syncfs(fs::File::open(site.node.root()).unwrap()).unwrap();
}

fn held(site: &Site) {
    let volume = site.node.create_for("9", "carol");
    fs::write(volume.join("result"), bytes(9, 1 << 20)).unwrap();
    rustix::fs::syncfs(fs::File::open(&volume).unwrap()).unwrap();
}

fn found(site: &Site) {
    let volume = site.node.root().join("bb/carol");
    let is_back = || fs::read(volume.join("result")).is_ok_and(|found| found == bytes(9, 1 << 20));
    assert!(wait_until_told(PATIENCE, is_back));
    assert!(room(&volume) < CAPACITY + SURPLUS, "its limit is there too");
    assert!(site.node.local(&["release", "9"]).0);
    let is_gone = || !site.node.local(&["list"]).1.contains("9: ");
    assert!(wait_until_told(PATIENCE, is_gone));
}

fn drained(site: &Site) {
    site.node.wait_until_discarded();
    for number in 0..FILES {
        let file = site.node.root().join(format!("pfs/f{number}"));
        assert!(fs::read(&file).unwrap() == bytes(number, 100_000), "{}", file.display());
    }
    assert!(wait_until_told(PATIENCE, || site.leftovers().is_empty()), "{:?}", site.leftovers());
}

impl Site {
    #[track_caller]
    fn is_kept(&self) {
        let says = || self.node.local(&["list"]).1.contains("kept after its job: 1 files are not drained: ");
        assert!(wait_until_told(PATIENCE, says), "{}", self.node.local(&["list"]).1);
    }

    /// What is there of volumes.
    fn leftovers(&self) -> Vec<String> {
        if self.kind == KINDS[0] {
            let listed =
                Command::new("lvs").args(["--noheadings", "-o", "lv_name", "flash"]).output().unwrap();
            let names = String::from_utf8(listed.stdout).unwrap();
            return names.split_whitespace().map(str::to_owned).collect();
        }
        let names = fs::read_dir("/run/flash/volumes").unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// What may still be written below `folder`, bytes.
fn room(folder: &Path) -> u64 {
    let stat = rustix::fs::statvfs(folder).unwrap();
    stat.f_bavail * stat.f_frsize
}
