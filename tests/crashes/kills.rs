//! Storage nodes, mounts' processes and the nodes that supervise them are killed under programs that work: no call
//! fails, and nothing that was acknowledged is lost or torn.

use std::time::Duration;

use tests::cluster::Cluster;
use tests::processes::wait_until;
use tests::random::Random;
use tests::site::{self, HANGS_AFTER, Plan, Site, is_alive};
use tests::writers::{Writer, assert_shared};

use crate::setting;

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
        writers.iter_mut().for_each(Writer::assert_works);
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
    assert_shared(&site.mountpoint(fresh), &counts);
    for n in 0..mounts {
        let mount = &site.compute[n].call("GET", "/v1/health", None)["mounts"][0];
        assert_eq!(mount["interruptions"], 0, "a mount was lost and made anew: {mount}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_control_and_its_nodes_are_killed() {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let kills = setting("FOREBAY_CRASH_KILLS", KILLS);
    eprintln!("seed {seed}, {kills} kills");
    let cluster = Cluster::new();
    let mount = cluster.pfs("mnt");
    let path = mount.to_str().expect("temporary folders have plain names");
    cluster.forebay(&["mount", path, "--capacity", "512MiB", "--nodes", "4"]).expect_success();
    let mut writer = Writer::start("load", &mount, 0, seed);
    let mut random = Random::new(seed);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(random.below(300)));
        match random.below(6) {
            0 => {
                cluster.process("forebay-control", "").kill();
                // The next command of a user starts another.
                cluster.status();
            }
            1 | 2 => {
                cluster.process("forebay-mount", "").kill();
                await_supervised(&cluster);
            }
            // The first supervises the mount, too.
            3 => {
                await_supervised(&cluster);
                cluster.process("forebay-node", "n0").kill();
                await_supervised(&cluster);
            }
            n => cluster.process("forebay-node", &format!("n{}", n - 3 + random.below(2))).kill(),
        }
        writer.assert_works();
    }
    let counts = writer.stop();
    eprintln!("(appends, flocks, fcntl locks, steps): {counts:?}");
    for n in 0..4 {
        cluster.process("forebay-node", &format!("n{n}")).kill();
    }
    writer.verify(&mount);
    assert_shared(&mount, &[counts]);
    drop(writer);
    cluster.forebay(&["umount", path]).expect_success();
    cluster.assert_nothing_left();
}

/// Waits until the mount's process lives and its node holds the mount.
#[track_caller]
fn await_supervised(cluster: &Cluster) {
    let supervised = wait_until(HANGS_AFTER, || {
        let health = site::ask(&cluster.state.join("nodes/n0/node.sock"), "GET", "/v1/health", None);
        let mount = health.map(|health| health["mounts"][0].clone()).unwrap_or_default();
        let pid = mount["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        mount["mounted"] == true && pid.is_some_and(is_alive)
    });
    assert!(supervised, "the mount is not back");
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
            site.compute[victim].kill_mount();
        }
        _ => {
            let victim = random.below(site.compute.len() as u64) as usize;
            let pause = Duration::from_millis(random.below(200));
            site.compute[victim].restart_supervisor(pause);
        }
    }
}
