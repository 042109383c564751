//! Capacity: what is promised, what happens past it, and to whom.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use tests::cluster::Cluster;
use tests::tree;

const MEBIBYTE: u64 = 1 << 20;

/// Writes until the file system is full; returns the errno and how many bytes it took.
fn fill(folder: &Path) -> (Option<i32>, u64) {
    use std::io::Write;
    let block = tree::bytes(5, MEBIBYTE as usize);
    let mut file = fs::File::create(folder.join("filler")).expect("the folder is ours");
    let mut written = 0;
    loop {
        match file.write_all(&block).and_then(|()| file.sync_data()) {
            Ok(()) => written += MEBIBYTE,
            Err(error) => return (error.raw_os_error(), written),
        }
        assert!(written < 4096 * MEBIBYTE, "the capacity has no end");
    }
}

#[track_caller]
fn overfilling_harms_nobody_else(nodes: &str) {
    let cluster = Cluster::new();
    let [full, other] = ["full", "other"].map(|name| cluster.pfs(name));
    for path in [&full, &other] {
        let text = path.to_str().unwrap();
        cluster.forebay(&["mount", text, "--capacity", "384MiB", "--nodes", nodes]).expect_success();
    }
    let before = tree::bytes(9, 3 << 20);
    fs::write(other.join("file"), &before).unwrap();
    fs::write(full.join("small"), &before).unwrap();

    let (errno, written) = fill(&full);
    assert_eq!(errno, Some(rustix::io::Errno::NOSPC.raw_os_error()), "after {written} bytes");
    assert!(written > 300 * MEBIBYTE && written <= 384 * MEBIBYTE, "ENOSPC after {written} bytes");

    assert!(fs::read(full.join("small")).unwrap() == before, "a full buffer lost a file");
    assert!(fs::read(other.join("file")).unwrap() == before);
    fs::write(other.join("second"), &before).expect("another buffer is not full");

    fs::remove_file(full.join("filler")).unwrap();
    fs::write(full.join("after"), &before).expect("removing a file makes room");
    assert!(fs::read(full.join("after")).unwrap() == before);
}

/// `ulimit -f` of whoever starts the services must not end them, as the signal for it does.
#[test]
fn a_limit_of_the_length_of_files_is_an_error_of_who_writes_and_no_end_of_a_node() {
    for (limit, is_written) in [("ulimit -Sf 10240", true), ("ulimit -f 10240", false)] {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let text = path.to_str().unwrap();
        let mount = cluster.command(&[
            "mount",
            text,
            "--capacity",
            "128MiB",
            "--nodes",
            "2",
            "--volume",
            "directory",
        ]);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limit}; exec \"$@\""), "sh"])
            .arg(mount.get_program())
            .args(mount.get_args());
        cluster.spawn(command).wait().expect_success();
        let node = cluster.process("forebay-node", "");
        let written = fs::write(path.join("file"), vec![7; 40 << 20]);
        assert_eq!(written.is_ok(), is_written, "{written:?}");
        assert!(is_written || written.unwrap_err().raw_os_error() == Some(Errno::FBIG.raw_os_error()));
        assert!(node.is_alive());
        cluster.forebay(&["umount", text]).expect_success();
    }
}

#[test]
fn overfilling_gives_enospc_and_harms_nobody_else_with_one_node() {
    overfilling_harms_nobody_else("1");
}

#[test]
fn overfilling_gives_enospc_and_harms_nobody_else_with_four_nodes() {
    overfilling_harms_nobody_else("4");
}

#[test]
fn statfs_shows_the_buffers_capacity_and_not_the_disks() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    cluster
        .forebay(&["mount", path.to_str().unwrap(), "--capacity", "400MiB", "--nodes", "2"])
        .expect_success();
    let statfs = rustix::fs::statvfs(&path).expect("it is mounted");
    let [size, free] = [statfs.f_blocks, statfs.f_bavail].map(|blocks| blocks * statfs.f_frsize / MEBIBYTE);
    assert!((400..=404).contains(&size), "{size} MiB in all");
    assert!((360..=404).contains(&free), "{free} MiB free");
}

#[test]
fn a_job_that_overfills_its_buffer_sees_the_error_and_its_results_are_staged_out() {
    let cluster = Cluster::new();
    let target = cluster.pfs("pfs").join("results");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=32MiB access_mode=striped type=scratch\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/results destination={}\n\
         mkdir $DW_JOB_STRIPED/results\necho kept > $DW_JOB_STRIPED/results/file\n\
         dd if=/dev/zero of=${{DW_JOB_STRIPED}}filler bs=1M count=64 2> message && exit 0\n\
         rm ${{DW_JOB_STRIPED}}filler\nexit 28\n",
        target.display()
    );
    let outcome = cluster.run(&script, &["--volume", "directory"]);
    assert_eq!(outcome.code(), 28, "{}", outcome.stderr);
    let message = fs::read_to_string(cluster.work.join("message")).unwrap();
    assert!(message.contains("No space left on device"), "{message}");
    assert_eq!(fs::read_to_string(target.join("file")).expect("it was staged out"), "kept\n");
}

mod root_only {
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    use tests::processes::wait_until_told;

    use super::*;

    /// Longer than anything here takes on a busy machine.
    const SOON: Duration = Duration::from_secs(30);

    /// Whether two counts of bytes differ by less than one percent of what was written.
    #[track_caller]
    fn assert_close(what: &str, found: u64, written: u64) {
        assert!(found.abs_diff(written) * 100 < written, "{what}: {found} bytes, written were {written}");
    }

    #[test]
    fn df_and_du_and_status_agree_on_what_was_written_into_images() {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let options = ["--capacity", "1GiB", "--nodes", "4", "--volume", "image"];
        cluster.forebay(&[&["mount", path.to_str().unwrap()], options.as_slice()].concat()).expect_success();
        // Grown by many writes, as programs do: that is what a file system prepares more space for.
        let block = tree::bytes(3, MEBIBYTE as usize);
        let mut file = fs::File::create(path.join("file")).unwrap();
        for _ in 0..400 {
            std::io::Write::write_all(&mut file, &block).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        let written = 400 * MEBIBYTE;
        let stat = rustix::fs::statvfs(&path).unwrap();
        assert_close("df", (stat.f_blocks - stat.f_bfree) * stat.f_frsize, written);
        assert_close("du", fs::metadata(path.join("file")).unwrap().blocks() * 512, written);
        // Control asks its nodes every second.
        let told = || cluster.status()["sessions"][0]["instance"]["used_bytes"].as_u64().unwrap();
        let same = |told: u64| told.abs_diff(written) * 100 < written;
        assert!(wait_until_told(SOON, || same(told())), "status: {}, written were {written}", told());
        cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
    }
}
