//! Bad input: one line that says what is wrong and what to do, an exit status that is not zero, nothing left behind.

use std::fs;

use tests::cluster::{Cluster, Outcome};

use crate::drain::Node;

const JOBDW: &str = "#DW jobdw capacity=64MiB access_mode=striped type=scratch";

/// The command failed with one line of error that contains every one of `words`, and left nothing behind.
#[track_caller]
fn assert_refused(cluster: &Cluster, outcome: &Outcome, words: &[&str]) {
    assert_ne!(outcome.code(), 0, "it was accepted:\n{}", outcome.stdout);
    let errors: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(errors.len(), 1, "not one line of error:\n{}", outcome.stderr);
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in: {}", errors[0]);
    }
    cluster.assert_nothing_left();
}

#[track_caller]
fn script_is_refused(directives: &str, words: &[&str]) {
    let cluster = Cluster::new();
    let outcome = cluster.run(&format!("#!/bin/bash\n{directives}\ntouch started\n"), &[]);
    assert_refused(&cluster, &outcome, words);
    assert!(!cluster.work.join("started").exists(), "the job started");
}

#[test]
fn a_missing_source_is_refused() {
    let directives =
        format!("{JOBDW}\n#DW stage_in type=file source=/no/such/file destination=$DW_JOB_STRIPED/x");
    script_is_refused(&directives, &["/no/such/file", "No such file"]);
}

#[test]
fn a_destination_outside_the_buffer_is_refused() {
    let directives =
        format!("{JOBDW}\n#DW stage_in type=file source=/etc/passwd destination=$DW_JOB_STRIPED/../../x");
    script_is_refused(&directives, &["line 3", ".."]);
    let directives = format!("{JOBDW}\n#DW stage_in type=file source=/etc/passwd destination=/etc/shadow2");
    script_is_refused(&directives, &["line 3", "/etc/shadow2"]);
}

#[test]
fn a_buffer_larger_than_the_disk_is_refused() {
    script_is_refused("#DW jobdw capacity=4PiB access_mode=striped type=scratch", &["4 PiB"]);
}

#[test]
fn a_directive_with_a_typo_is_refused_with_its_place() {
    script_is_refused("#DW jobdw capacity=64MiB acces_mode=striped type=scratch", &["line 2", "acces_mode"]);
    script_is_refused("#DW jobbdw capacity=64MiB", &["line 2", "jobbdw"]);
    script_is_refused("#DW jobdw capacity=64MX access_mode=striped type=scratch", &["line 2", "64MX"]);
}

#[test]
fn a_script_without_directives_is_refused() {
    script_is_refused("# nothing is asked for", &["#DW"]);
}

#[test]
fn a_script_that_is_not_there_is_refused() {
    let cluster = Cluster::new();
    let outcome = cluster.forebay(&["run", "no-such-job.sh"]);
    assert_refused(&cluster, &outcome, &["no-such-job.sh", "No such file"]);
}

#[test]
fn what_is_not_built_yet_is_refused_and_not_ignored() {
    script_is_refused("#DW jobdw capacity=64MiB access_mode=striped type=cache pfs=/tmp", &["cache"]);
    script_is_refused(&format!("{JOBDW}\n#DW swap 1GiB"), &["swap"]);
}

#[test]
fn a_persistent_buffer_that_is_not_there_is_refused() {
    script_is_refused("#DW persistentdw name=shared", &["no persistent buffer shared", "create_persistent"]);
}

#[test]
fn an_unknown_token_is_refused() {
    let cluster = Cluster::new();
    let outcome = cluster.forebay(&["rm", "4711"]);
    assert_refused(&cluster, &outcome, &["4711"]);
    let outcome = cluster.forebay(&["stage", "wait", "--token", "nobody"]);
    assert_eq!(outcome.code(), 66, "{}", outcome.stderr);
}

#[test]
fn a_mount_point_that_is_not_there_is_refused() {
    let cluster = Cluster::new();
    let outcome = cluster.forebay(&["mount", "/no/such/folder", "--capacity", "64MiB"]);
    assert_refused(&cluster, &outcome, &["/no/such/folder"]);
}

mod user_only {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_unreadable_source_is_refused() {
        let cluster = Cluster::new();
        let secret = cluster.pfs("pfs").join("secret");
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
        let directive =
            format!("#DW stage_in type=file source={} destination=$DW_JOB_STRIPED/x", secret.display());
        let outcome = cluster.run(&format!("#!/bin/bash\n{JOBDW}\n{directive}\ntrue\n"), &[]);
        assert_refused(&cluster, &outcome, &["secret", "Permission denied"]);
    }

    #[test]
    fn a_state_folder_that_cannot_be_written_is_refused() {
        let mut cluster = Cluster::new();
        cluster.state = "/proc/forebay".into();
        let outcome = cluster.run(&format!("#!/bin/bash\n{JOBDW}\ntrue\n"), &[]);
        assert_refused(&cluster, &outcome, &["/proc/forebay"]);
    }
}

mod root_only {
    use std::process::Command;
    use std::time::Duration;

    use rustix::process::Signal;
    use tests::cluster::program_folder;
    use tests::disk::Disk;
    use tests::processes::wait_until;
    use tests::tree;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Mounts a memory disk of `mebibytes` at the cluster's folder `disk`.
    fn small_disk(cluster: &Cluster, mebibytes: u32) -> std::path::PathBuf {
        let disk = cluster.pfs("disk");
        let options = std::ffi::CString::new(format!("size={mebibytes}m")).unwrap();
        rustix::mount::mount("none", &disk, "tmpfs", rustix::mount::MountFlags::empty(), options.as_c_str())
            .unwrap();
        disk
    }

    #[test]
    fn a_full_disk_below_the_state_folder_is_refused() {
        let mut cluster = Cluster::new();
        let disk = small_disk(&cluster, 1);
        cluster.state = disk.join("s");
        let _ = fs::write(disk.join("filler"), vec![1; 2 << 20]);
        let outcome = cluster.run(&format!("#!/bin/bash\n{JOBDW}\ntrue\n"), &[]);
        assert_refused(&cluster, &outcome, &["No space left on device"]);
    }

    #[test]
    fn on_a_full_disk_control_starts_again_and_a_buffer_can_be_listed_and_removed() {
        // One that ends by itself takes its files along.
        for (disk, signal) in [
            (Disk::xfs(), Signal::KILL),
            (Disk::xfs(), Signal::TERM),
            (Disk::ext4(), Signal::KILL),
            (Disk::ext4(), Signal::TERM),
        ] {
            let mut cluster = Cluster::new();
            cluster.state = disk.folder().join("s");
            let path = cluster.folder().join("buffer").display().to_string();
            let options = ["mount", &path, "--capacity", "64MiB", "--volume", "directory"];
            cluster.forebay(&options).expect_success();
            disk.fill();
            let control = cluster.process("forebay-control", "");
            control.signal(signal);
            assert!(wait_until(MINUTE, || !control.is_alive()), "control does not end");
            disk.fill();
            let tokens = cluster.tokens();
            cluster.forebay(&["rm", &tokens[0], "--force"]).expect_success();
            assert!(cluster.tokens().is_empty());
            cluster.assert_nothing_left();
        }
    }

    #[test]
    fn a_disk_that_fills_under_the_buffer_is_an_error_of_the_job_and_no_data_is_lost() {
        let mut cluster = Cluster::new();
        let disk = small_disk(&cluster, 96);
        cluster.state = disk.join("s");
        let target = cluster.folder().join("target");
        let script = format!(
            "#!/bin/bash\n{JOBDW}\n#DW stage_out type=file source=$DW_JOB_STRIPED/file destination={}\n\
             echo kept > ${{DW_JOB_STRIPED}}file\nhead -c 200M /dev/zero > {}/filler\n\
             dd if=/dev/zero of=${{DW_JOB_STRIPED}}more bs=1M count=60 conv=fsync 2> message && exit 0\nexit 28\n",
            target.display(),
            disk.display()
        );
        let outcome = cluster.run(&script, &["--volume", "directory"]);
        assert_ne!(outcome.code(), 0, "{}", outcome.stdout);
        let message = fs::read_to_string(cluster.work.join("message")).unwrap();
        assert!(message.contains("No space left on device"), "{message}");
        cluster.assert_nothing_mounted();

        // With room again, the data goes where it belongs (if it could not before).
        fs::remove_file(disk.join("filler")).unwrap();
        for token in cluster.tokens() {
            cluster.forebay(&["stage", "retry", &token]).expect_success();
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept\n");
        cluster.assert_nothing_left();
    }

    #[test]
    fn a_stage_out_to_a_full_disk_keeps_the_data_until_there_is_room() {
        let cluster = Cluster::new();
        let disk = small_disk(&cluster, 8);
        let target = disk.join("results");
        let script = format!(
            "#!/bin/bash\n{JOBDW}\n#DW stage_out type=directory source=$DW_JOB_STRIPED/results destination={}\n\
             mkdir $DW_JOB_STRIPED/results\nhead -c 16M /dev/urandom | tee $DW_JOB_STRIPED/results/file > copy\n",
            target.display()
        );
        let outcome = cluster.run(&script, &[]);
        assert_eq!(outcome.code(), 74, "{}\n{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("No space left on device"), "{}", outcome.stderr);

        let size = std::ffi::CString::new("size=64m").unwrap();
        rustix::mount::mount_remount(&disk, rustix::mount::MountFlags::empty(), size.as_c_str()).unwrap();
        let token = cluster.tokens().remove(0);
        cluster.forebay(&["stage", "retry", &token]).expect_success();
        assert!(fs::read(target.join("file")).unwrap() == fs::read(cluster.work.join("copy")).unwrap());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1, "no temporary files are left");
    }

    #[test]
    fn a_machine_without_a_fuse_device_is_refused() {
        let cluster = Cluster::new();
        let path = cluster.script(&format!("#!/bin/bash\n{JOBDW}\ntrue\n"));
        let devices = cluster.pfs("devices");
        // A /dev of the test's own mount namespace, with everything but the device.
        let hide = "set -e; mount --make-rprivate /\n\
            for d in null zero urandom; do touch $0/$d; done\n\
            mount -t tmpfs none $0; for d in null zero urandom; do touch $0/$d; mount --bind /dev/$d $0/$d; done\n\
            mount --rbind $0 /dev; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide]).arg(&devices).arg(program_folder().join("forebay"));
        command.args(["run", &path, "--dir"]).arg(&cluster.state).current_dir(&cluster.work);
        let outcome = cluster.spawn(command).wait();
        assert_refused(&cluster, &outcome, &["/dev/fuse"]);
    }

    #[test]
    fn root_stages_files_that_keep_their_owners() {
        use std::os::unix::fs::MetadataExt;
        let cluster = Cluster::new();
        let source = cluster.pfs("pfs");
        tree::generate(&source).unwrap();
        std::os::unix::fs::chown(source.join("size-1"), Some(1234), Some(2345)).unwrap();
        let target = cluster.folder().join("out");
        let script = format!(
            "#!/bin/bash\n#DW jobdw capacity=256MiB access_mode=striped type=scratch\n\
             #DW stage_in type=directory source={} destination=$DW_JOB_STRIPED\n\
             #DW stage_out type=directory source=$DW_JOB_STRIPED destination={}\ntrue\n",
            source.display(),
            target.display()
        );
        cluster.run(&script, &[]).expect_success();
        tree::assert_equal(&source, &target);
        let metadata = fs::metadata(target.join("size-1")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 2345));
    }
}

#[test]
fn a_drain_that_cannot_start_makes_nothing_on_the_pfs_and_says_whose_fault_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::new(folder.path(), "n1");
    let pfs = node.to.clone();
    node.to = pfs.join("out");
    for words in [["--limit", "much"], ["--cores", "all"]] {
        let refused = node.drain(&[&["start"], &words[..]].concat());
        assert_eq!(refused.code(), 64, "{words:?}: {}", refused.stderr);
    }
    // As an earlier drainer noted it, before the PFS was unmounted.
    let own = node.from.join(".forebay-drain");
    fs::create_dir_all(&own).unwrap();
    let noted = serde_json::json!([{"path": node.to, "mountpoint": pfs, "kind": "lustre"}]);
    fs::write(own.join("pfs.json"), noted.to_string()).unwrap();
    let refused = node.drain(&["start"]);
    assert_eq!(refused.code(), 69, "{}", refused.stderr);
    assert!(refused.stderr.contains("is not mounted"), "{}", refused.stderr);
    assert_eq!(fs::read_dir(&pfs).unwrap().count(), 0, "something lies below the mount point");
}
