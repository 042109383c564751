//! A storage node is lost for good, with its folder, while programs work in the buffer: where each part of it is on two
//! nodes another node takes the place of the lost one, under the mounts, and nothing is missing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tests::processes::wait_until;
use tests::random::Random;
use tests::site::{HANGS_AFTER, Plan, Site};
use tests::writers::Writer;

use crate::one_node::{BYTES, FILES, contents, written};
use crate::setting;

const THREE: Plan =
    Plan { storage_nodes: 3, mounts: 2, volume: "directory", grace_ms: 60_000, capacity: 256 << 20 };

/// What storage node `n` says of the mirror of its part.
fn mirror(site: &Site, n: usize) -> serde_json::Value {
    site.storage[n].call("GET", "/v1/health", None)["fragments"][0]["mirrors"][0].clone()
}

#[track_caller]
fn await_two_copies(site: &Site) {
    for (n, node) in site.storage.iter().enumerate() {
        let whole = wait_until(HANGS_AFTER, || mirror(site, n)["whole"] == true);
        assert!(whole, "node {n}: {}\n{}", mirror(site, n), node.log());
    }
}

#[track_caller]
fn assert_holds(file: &File, n: usize) {
    let mut bytes = vec![0; BYTES];
    file.read_exact_at(&mut bytes, 0).expect("all of it can be read");
    assert!(bytes == contents(n), "file {n} has other bytes");
}

#[test]
fn nodes_that_are_lost_for_good_cost_nothing_where_each_part_is_on_two_nodes() {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let mut site = Site::start_mirrored(THREE, |_| None);
    let folder = site.mountpoint(0);
    // The home last: it has confirmed all names by then.
    for (round, n) in [1, 2, 0].into_iter().enumerate() {
        let mut writers: Vec<Writer> = (0..2)
            .map(|w| Writer::start("confirmed", &site.mountpoint(w), 2 * round + w, seed + w as u64))
            .collect();
        let files: Vec<[File; 2]> = (0..FILES)
            .map(|k| written(&folder, &format!("file-{round}-{k}"), k).expect("all nodes are there"))
            .collect();
        File::open(&folder).and_then(|folder| folder.sync_all()).expect("all nodes are there");
        await_two_copies(&site);
        std::thread::sleep(Duration::from_millis(random.below(500)));
        site.replace(&[n]);
        writers.iter_mut().for_each(Writer::assert_works);
        for (k, [first, second]) in files.iter().enumerate() {
            assert_holds(first, k);
            if n != 0 {
                // No sync had confirmed them: they were on two nodes all the same.
                first.sync_all().expect("nothing is lost");
                second.sync_all().expect("nothing is lost");
            }
        }
        await_two_copies(&site);
        let counts: Vec<_> = writers.iter_mut().map(Writer::stop).collect();
        eprintln!("node {n}: fsyncs that said OK, and not: {counts:?}");
        let confirmed: u64 =
            (0..).zip(&mut writers).map(|(w, writer)| writer.verify(&site.mountpoint(1 - w))[0]).sum();
        assert!(confirmed > 0, "nothing was ever confirmed");
    }
}

#[test]
fn a_part_that_is_lost_together_with_its_mirror_is_refused_by_name() {
    let mut site = Site::start_mirrored(Plan { mounts: 1, grace_ms: 20_000, ..THREE }, |_| None);
    let path = site.mountpoint(0).join("file");
    fs::write(&path, contents(1)).expect("all nodes are there");
    await_two_copies(&site);
    // The second has the mirror of the first.
    site.replace(&[1, 2]);
    let error = || {
        let health = site.storage[1].call("GET", "/v1/health", None);
        health["fragments"][0]["error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(wait_until(HANGS_AFTER, || error().contains("lacks changes that were answered")), "{}", error());
    assert!(error().contains("n2-again"), "{}", error());
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut vec![0; BYTES], 0));
    read.expect_err("what is lost is an error, and not zeros");
}
