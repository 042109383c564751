//! Checksums that are lost together with the log that they are in: nobody takes what is there for good in silence.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, Plan, Site};

use crate::rot::{FOLDERS, flip, objects, scrub, scrub_at_rest};

#[test]
fn checksums_that_were_lost_are_told_until_their_files_are_written_anew_or_accepted() {
    let mut site = Site::start(Plan { storage_nodes: 2, ..FOLDERS }, None);
    let folder = site.mountpoint(0);
    let names = ["anew", "kept", "removed"];
    names.iter().for_each(|name| fs::write(folder.join(name), vec![7; 700_000]).expect("there is room"));
    let flipped = objects(&site, &folder.join("kept"))[0].clone();
    assert!(scrub_at_rest(&site).is_empty() && standing(&site).is_empty());

    site.storage.iter_mut().for_each(|node| node.kill());
    flip(&flipped, 70_000);
    cut_and_remove_logs(&site);
    site.storage.iter_mut().for_each(|node| node.start());

    let fresh = site.add_mount();
    let folder = site.mountpoint(fresh);
    let told = || told(&site);
    let all = told();
    assert!(all.len() == 2 && all.iter().all(|part| part["unverified"] == 3), "{all:?}");
    fs::write(folder.join("anew"), vec![8; 700_000]).expect("it can be written anew");
    fs::remove_file(folder.join("removed")).expect("it can be removed");
    // The first mount has to say what it has open before anything of removed files goes.
    fs::write(site.mountpoint(0).join("back"), "").expect("the nodes are back");
    let only_kept = || told().iter().all(|part| part["unverified"] == 1);
    assert!(wait_until(HANGS_AFTER, only_kept), "{:?}", standing(&site));

    site.storage.iter_mut().for_each(|node| {
        node.kill();
        node.start();
    });
    assert_eq!(self::told(&site).len(), 2);
    for node in &site.storage {
        node.call("PUT", "/v1/fragments/i1/fsck", Some(&json!({ "repair": true })));
    }
    assert_eq!(self::told(&site), [Value::Null; 0]);
}

/// One log of seals loses its last bytes, the other goes.
fn cut_and_remove_logs(site: &Site) {
    let log = |node: &Path| node.join("fragments/i1/sums/0.log");
    let cut =
        fs::File::options().write(true).open(log(site.storage[0].folder())).expect("the folder is ours");
    cut.set_len(cut.metadata().expect("it is a file").len() - 3).expect("the folder is ours");
    fs::remove_file(log(site.storage[1].folder())).expect("the folder is ours");
}

/// The same after a scrub.
fn told(site: &Site) -> Vec<Value> {
    scrub(site);
    standing(site)
}

/// What the nodes say is wrong with the bytes of their parts.
fn standing(site: &Site) -> Vec<Value> {
    let health = site.storage.iter().map(|node| node.call("GET", "/v1/health", None));
    let parts = health.map(|health| health["fragments"][0]["integrity"].clone());
    parts.filter(|part| part["damaged"] != 0 || !part["seals_lost"].is_null()).collect()
}
