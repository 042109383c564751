//! A home's log has lost its end, and nothing here says so: what it does not name is kept until its copy was asked.

use client::Names;
use model::InstanceId;
use wire::node::FsckSpec;

use crate::copies::{HOME, KEEPER, await_status, await_two_copies, cut, log, start, stop};
use crate::restored::{BYTES, read, write};
use crate::support::{Cluster, pattern};

const FILES: usize = 20;

#[test]
fn nothing_is_removed_by_the_word_of_a_log_before_its_copy_was_asked_whether_it_is_whole() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client();
    let inos: Vec<_> = (0..FILES).map(|n| write(&client, &format!("name-{n}"), BYTES, n)).collect();
    client.sync_metadata().unwrap();
    drop(client);
    await_two_copies(&cluster);
    stop(&cluster, HOME);
    stop(&cluster, KEEPER);
    cut(&log(&cluster));
    start(&mut cluster, HOME);
    await_status(&cluster, "served", |status| !status.copies.is_empty());
    let repair = |cluster: &Cluster| {
        cluster.servers[HOME].fsck(&InstanceId::literal("i1"), FsckSpec { repair: true }).unwrap()
    };
    let report = repair(&cluster);
    assert!(report.freed == 0 && report.unseen.iter().any(|part| part.why.contains("n1")), "{report:?}");
    start(&mut cluster, KEEPER);
    let report = repair(&cluster);
    assert!(!report.orphans.is_empty() && report.freed == 0, "{report:?}");
    assert!(report.unseen.iter().any(|part| part.why.contains("its end was lost")), "{report:?}");
    stop(&cluster, HOME);
    start(&mut cluster, HOME);
    let client = cluster.client();
    for (n, ino) in inos.into_iter().enumerate() {
        assert!(read(&client, ino, BYTES) == Ok(pattern(BYTES, n)), "file {n}");
    }
    assert_eq!(repair(&cluster).unseen, []);
}
