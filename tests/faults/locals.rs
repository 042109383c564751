//! Private volumes of a node that are discarded while a call fails, or kills the node: all of it goes, and nothing of
//! another.

use std::fs;
use std::time::Duration;

use tests::injection::{Call, Fault, Trace, recorded, struck};
use tests::local_node::LocalNode;
use tests::processes::{mounts_of, wait_until};

use crate::tried;

const WORDS: &str = "not to be lost";

/// A node with the volume of a job that goes on.
fn site() -> LocalNode {
    let site = LocalNode::start("/var/tmp", "64MiB");
    fs::write(site.create_for("8", "bob").join("file"), WORDS).unwrap();
    site
}

fn is_gone(site: &LocalNode) -> bool {
    let names = fs::read_dir(site.root().join("state/locals")).unwrap();
    names.flatten().all(|entry| entry.file_name() == "8")
        && !mounts_of(site.root()).iter().any(|point| point.ends_with("ada"))
}

/// The calls by which a volume is discarded.
fn calls(site: &LocalNode) -> Vec<Call> {
    let log = site.root().join("trace");
    fs::write(site.create("7").join("file"), "words").unwrap();
    let attached = Trace::of(Fault::None, &log).attach(site.pid());
    assert!(site.local(&["release", "7"]).0);
    assert!(wait_until(Duration::from_secs(30), || is_gone(site)));
    drop(attached);
    let mut calls = recorded(&log, site.root());
    // Reads from the pipes of losetup have the same numbers. The kernel gives no EIO there, and std panics at it.
    calls.retain(|call| call.name != "read");
    tried(calls)
}

fn discards(fault: impl Fn(Call) -> Fault, every: usize) -> (usize, usize) {
    let mut site = site();
    let (log, mut hits, mut deaths) = (site.root().join("trace"), 0, 0);
    for call in calls(&site).into_iter().step_by(every) {
        fs::write(site.create("7").join("file"), "words").unwrap();
        let attached = Trace::of(fault(call.clone()), &log).attach(site.pid());
        let released = site.local(&["release", "7"]).0;
        // One whose call fails has perhaps not died yet.
        let limit = Duration::from_secs(if released { 30 } else { 2 });
        let settled = wait_until(limit, || !site.lives() || is_gone(&site));
        assert!(settled || !released, "{call:?}: {}\n{}", site.local(&["list"]).1, site.log());
        drop(attached);
        hits += struck(&log);
        // Whoever was not told that it is released asks again; the node may have died with its very last step.
        if !site.local(&["release", "7"]).0 {
            assert!(wait_until(Duration::from_secs(5), || !site.lives()), "{call:?}: {}", site.log());
            deaths += 1;
            site.reboot();
            assert!(site.local(&["release", "7"]).0, "{call:?}: {}", site.log());
        }
        let gone = wait_until(Duration::from_secs(30), || is_gone(&site));
        assert!(gone, "{call:?}: {}\n{}", site.local(&["list"]).1, site.log());
        // After a reboot it is mounted again meanwhile.
        let other = site.root().join("bb/bob/file");
        let kept = wait_until(Duration::from_secs(30), || {
            fs::read_to_string(&other).is_ok_and(|kept| kept == WORDS)
        });
        assert!(kept, "{call:?}: the other volume: {}", site.log());
    }
    (hits, deaths)
}

#[test]
fn a_death_while_a_private_volume_is_discarded_leaves_nothing_of_it_and_all_of_others() {
    let (_, deaths) = discards(Fault::Kill, 2);
    assert!(deaths > 4, "{deaths} deaths");
}

#[test]
fn an_error_while_a_private_volume_is_discarded_leaves_nothing_of_it_and_all_of_others() {
    // After an error a volume is tried again after seconds.
    let (hits, _) = discards(|call| Fault::Error("EIO", call), 5);
    assert!(hits > 1, "{hits} errors");
}
