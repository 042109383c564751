//! Storage nodes, mounts' processes and the nodes that supervise them are killed under programs that work: no call fails,
//! and nothing that was acknowledged is lost or torn.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::random::Random;
use crate::setting;
use crate::site::{Plan, Site};
use crate::writers::Writer;

/// As many as a short run takes.
const KILLS: u64 = 40;

#[test]
fn nothing_acknowledged_is_lost_on_four_storage_nodes_and_three_mounts() {
    run(Plan { storage_nodes: 4, mounts: 3, volume: "directory", grace_ms: 120_000, capacity: 256 << 20 });
}

#[test]
fn nothing_acknowledged_is_lost_when_the_kernel_has_the_files() {
    run(Plan { storage_nodes: 1, mounts: 1, volume: "image", grace_ms: 120_000, capacity: 512 << 20 });
}

#[test]
fn nothing_acknowledged_is_lost_on_one_storage_node_and_two_mounts() {
    run(Plan { storage_nodes: 1, mounts: 2, volume: "directory", grace_ms: 120_000, capacity: 512 << 20 });
}

fn run(plan: Plan) {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let kills = setting("FOREBAY_CRASH_KILLS", KILLS);
    eprintln!("seed {seed}, {kills} kills");
    let mounts = plan.mounts;
    let mut site = Site::start(plan, None);
    let mut writers: Vec<Writer> =
        (0..mounts).map(|n| Writer::start("load", &site.mountpoint(n), n, seed + n as u64)).collect();
    let mut random = Random::new(seed);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(random.below(300)));
        kill_one(&mut site, &mut random);
    }
    let counts: Vec<Vec<u64>> = writers.iter_mut().map(Writer::stop).collect();
    eprintln!("(appends, flocks, fcntl locks, steps) of each mount: {counts:?}");
    // Nothing is left in anybody's memory.
    site.storage.iter_mut().for_each(|node| node.kill());
    site.storage.iter_mut().for_each(|node| node.start());
    let fresh = site.add_mount();
    for (n, writer) in writers.iter_mut().enumerate() {
        writer.verify(&site.mountpoint(n));
        writer.verify(&site.mountpoint(fresh));
    }
    assert_appended(&site.mountpoint(fresh).join("appended"), &counts);
    for (which, name) in [(1, "counted-flock"), (2, "counted-fcntl")] {
        let bytes = fs::read(site.mountpoint(fresh).join(name)).expect("the counter is there");
        let found = u64::from_le_bytes(bytes.try_into().expect("a counter has 8 bytes"));
        assert_eq!(found, counts.iter().map(|counts| counts[which]).sum::<u64>(), "{name}");
    }
    for n in 0..mounts {
        let mount = &site.compute[n].call("GET", "/v1/health", None)["mounts"][0];
        assert_eq!(mount["interruptions"], 0, "a mount was lost and made anew: {mount}");
    }
}

/// Kills one process, or several storage nodes at once; what is not started again by others is, after a moment.
fn kill_one(site: &mut Site, random: &mut Random) {
    match random.below(8) {
        0..=2 => {
            let victim = random.below(site.storage.len() as u64) as usize;
            site.storage[victim].kill();
            std::thread::sleep(Duration::from_millis(random.below(200)));
            site.storage[victim].start();
        }
        3 => {
            site.storage.iter_mut().for_each(|node| node.kill());
            site.storage.iter_mut().for_each(|node| node.start());
        }
        4..=6 => {
            let victim = random.below(site.compute.len() as u64) as usize;
            let pid = Pid::from_raw(site.compute[victim].mount_pid()).expect("no process has the number 0");
            // It may have ended by another kill's doing.
            let _gone = kill_process(pid, Signal::KILL);
        }
        _ => {
            let victim = random.below(site.compute.len() as u64) as usize;
            // Node and mount at once is more than is promised: the successor of a mount that was just killed first.
            site.compute[victim].mount_pid();
            site.compute[victim].kill();
            std::thread::sleep(Duration::from_millis(random.below(200)));
            site.compute[victim].start();
            site.compute[victim].mount_pid();
        }
    }
}

/// Every record is there once and whole.
fn assert_appended(path: &Path, counts: &[Vec<u64>]) {
    let text = fs::read_to_string(path).expect("records are text");
    let mut next: HashMap<u64, u64> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(writer), Some(count)) = (number(), number()) else { panic!("a torn record: {line:?}") };
        let expected = next.entry(writer).or_default();
        assert_eq!(count, *expected, "the next record of writer {writer}");
        assert_eq!(words.count() as u64, 3 + count % 5, "a torn record: {line:?}");
        *expected += 1;
    }
    let acknowledged: HashMap<u64, u64> = (0..).zip(counts.iter().map(|counts| counts[0])).collect();
    assert_eq!(next, acknowledged, "records that are there, and that were acknowledged");
}
