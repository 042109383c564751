//! The key of a buffer on one machine is changed while programs have its files open.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tests::cluster::Cluster;
use tests::gate::Gate;
use tests::processes::{wait_until, wait_until_told};

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Writes at the same place of a file that is open, and reads it back, around two changes of the key.
fn works_on(mount: &[&str], also: impl Fn(&Cluster)) {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    cluster.forebay(&[&["mount", text], mount].concat()).expect_success();
    let file = fs::File::create_new(path.join("file")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let gone = fs::File::create_new(path.join("gone")).unwrap();
    gone.write_all_at(b"without a name", 0).unwrap();
    fs::remove_file(path.join("gone")).unwrap();
    let token = cluster.tokens().pop().unwrap();
    for round in 1..=3u8 {
        file.write_all_at(&vec![round; 3 << 20], 0).unwrap();
        let said = cluster.forebay(&["rekey", &token]).expect_success().stdout;
        assert!(said.contains("in 1 mount; the former one opens nothing any more"), "{said}");
        file.write_all_at(&[round + 100; 4096], 4096).unwrap();
        let mut bytes = vec![0; 8192];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..4096].iter().all(|byte| *byte == round), "round {round}");
        assert!(bytes[4096..].iter().all(|byte| *byte == round + 100), "round {round}");
        file.sync_all().unwrap();
        fs::write(path.join(format!("new-{round}")), "new").unwrap();
        also(&cluster);
    }
    // A mount that takes the place of one that died has the new key too.
    cluster.process("forebay-mount", "").kill();
    assert!(wait_until(SOON, || fs::read_to_string(path.join("new-3")).is_ok_and(|text| text == "new")));
    drop((file, gone));
    cluster.forebay(&["umount", text]).expect_success();
    cluster.forebay(&["rm", &token]).expect_success();
}

#[test]
fn files_that_the_kernel_has_itself_stay_open_while_the_key_is_changed() {
    works_on(&["--capacity", "64MiB"], |cluster| cluster.process("forebay-node", "").kill());
}

/// Its parts need a small disk each.
mod root_only {
    use super::*;

    #[test]
    fn a_mirrored_buffer_has_two_copies_again_when_its_key_is_changed() {
        works_on(&["--capacity", "64MiB", "--nodes", "2", "--mirror"], |cluster| {
            let status = || cluster.forebay(&["status"]).expect_success().stdout;
            assert!(wait_until_told(SOON, || status().contains("data: two copies")), "{}", status());
        });
    }
}

/// The first file arrives before the change, the second after it and before the job's end.
#[test]
fn what_a_job_closes_after_a_change_of_the_key_is_still_drained_while_it_runs() {
    let cluster = Cluster::new();
    let gate = Gate::new(cluster.folder());
    let target = cluster.folder().join("target");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch drain=on-close\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/results destination={}\n\
         set -e\nmkdir ${{DW_JOB_STRIPED}}results\necho first > ${{DW_JOB_STRIPED}}results/first\n{}",
        target.display(),
        gate.commands(),
    );
    let mut job = cluster.start(&["run", &cluster.script(&script), "--nodes", "2"]);
    gate.wait_reached(&mut job);
    let is_there = |name: &str| wait_until(SOON, || target.join(name).exists());
    assert!(is_there("first"), "nothing is drained");
    let token = cluster.tokens().remove(0);
    cluster.forebay(&["rekey", &token]).expect_success();
    fs::write(cluster.state.join("mnt").join(&token).join("striped/results/later"), "later").unwrap();
    assert!(is_there("later"), "nothing is drained any more");
    gate.open();
    job.wait().expect_success();
    cluster.assert_nothing_left();
}
