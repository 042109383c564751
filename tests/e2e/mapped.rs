//! What programs stored through mappings that outlive their mount or their job.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::cluster::Cluster;
use tests::processes::wait_until;

use crate::unmount::{Beside, SOON};

/// Maps a file of two pages, closes it, stores into both pages, says so, and stays.
const MAPS: &str = "import mmap,sys,time; f=open(sys.argv[1],'w+b'); f.truncate(8192); \
                    m=mmap.mmap(f.fileno(),8192); f.close(); m[0:5]=b'first'; m[8187:8192]=b'last!'; \
                    open(sys.argv[2],'w'); time.sleep(60)";

#[track_caller]
fn has_what_was_stored(file: &Path) {
    let bytes = fs::read(file).unwrap();
    assert_eq!((bytes.len(), &bytes[..5], &bytes[8187..]), (8192, &b"first"[..], &b"last!"[..]));
}

#[test]
fn what_a_mapping_stored_that_outlives_its_mount_is_seen_by_the_next() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    let options = ["mount", text, "--capacity", "64MiB", "--volume", "directory", "--nodes", "2"];
    cluster.forebay(&options).expect_success();
    let token = cluster.tokens().remove(0);
    let (file, stored) = (path.join("file"), cluster.work.join("stored"));
    let mut user = Beside::start(Command::new("python3").args(["-c", MAPS]).args([&file, &stored]));
    assert!(wait_until(SOON, || stored.exists()));
    cluster.forebay(&["umount", text, "--force"]).expect_success();
    assert!(user.lives());
    cluster.forebay(&["mount", text, "--token", &token]).expect_success();
    has_what_was_stored(&file);
    cluster.forebay(&["umount", text]).expect_success();
}

#[test]
fn what_a_mapping_stored_that_outlives_its_job_is_staged_out() {
    let cluster = Cluster::new();
    let (program, pid) = (cluster.work.join("maps.py"), cluster.work.join("pid"));
    fs::write(&program, MAPS).unwrap();
    let target = cluster.pfs("pfs").join("result");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/result destination={}\n\
         setsid sh -c 'echo $$ > {p}; exec python3 {} \"$DW_JOB_STRIPED/result\" {p}.stored' &\n\
         while [ ! -e {p}.stored ]; do sleep 0.05; done\n",
        target.display(),
        program.display(),
        p = pid.display()
    );
    cluster.run(&script, &["--volume", "directory"]).expect_success();
    has_what_was_stored(&target);
    let pid = fs::read_to_string(pid).unwrap();
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success(), "it outlived its job");
}
