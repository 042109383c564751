//! `forebay stage`: staging into and out of a buffer that is in use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::Signal;
use tests::cluster::Cluster;
use tests::tree;

/// A buffer that is mounted by hand, and its mount point as text.
fn mounted(cluster: &Cluster, options: &[&str]) -> (PathBuf, String) {
    let path = cluster.pfs("mnt");
    let text = path.to_str().expect("temporary folders have plain names").to_owned();
    cluster.forebay(&[&["mount", &text, "--capacity", "512MiB"], options].concat()).expect_success();
    (path, text)
}

#[track_caller]
fn what_is_staged_in_is_seen_at_once(mode: &str, nodes: &str) {
    let cluster = Cluster::new();
    let original = cluster.pfs("original");
    tree::generate(&original).expect("the folder is ours");
    let source = original.to_str().expect("a plain name");
    let (path, text) = mounted(&cluster, &["--access-mode", mode, "--nodes", nodes]);
    let target = format!("{text}/tree");

    // The kernel and the mount know that there is nothing, and what is in a file that is to be replaced.
    assert!(fs::metadata(&target).is_err() && fs::read_dir(&path).unwrap().count() == 0);
    fs::write(path.join("file"), "old").unwrap();
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "old");
    cluster.forebay(&["stage", "in", source, &target, "--wait"]).expect_success();
    tree::assert_equal(&original, &path.join("tree"));
    let new = cluster.pfs("pfs").join("new");
    fs::write(&new, "new and longer").unwrap();
    let file = format!("{text}/file");
    cluster.forebay(&["stage", "in", new.to_str().unwrap(), &file, "--wait"]).expect_success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new and longer");
    cluster.forebay(&["stage", "in", new.to_str().unwrap(), &text, "--wait"]).expect_success();
    assert_eq!(fs::read_to_string(path.join("new")).unwrap(), "new and longer");

    // So it is when another process has taken the mount over.
    cluster.process("forebay-mount", "").kill();
    assert!(fs::metadata(path.join("later")).is_err());
    let later = format!("{text}/later");
    cluster.forebay(&["stage", "in", new.to_str().unwrap(), &later, "--wait"]).expect_success();
    assert_eq!(fs::read_to_string(&later).unwrap(), "new and longer");

    let returned = cluster.folder().join("returned");
    cluster.forebay(&["stage", "out", &target, returned.to_str().unwrap(), "--wait"]).expect_success();
    tree::assert_equal(&original, &returned);
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1"]).expect_success();
    cluster.assert_nothing_left();
}

#[test]
fn what_is_staged_into_a_mounted_buffer_is_seen_there_at_once_with_one_node() {
    what_is_staged_in_is_seen_at_once("striped", "1");
}

#[test]
fn what_is_staged_into_a_mounted_buffer_is_seen_there_at_once_with_three_nodes() {
    what_is_staged_in_is_seen_at_once("striped", "3");
}

#[test]
fn what_is_staged_into_a_private_buffer_is_seen_there_at_once() {
    what_is_staged_in_is_seen_at_once("private", "2");
}

#[test]
fn a_stage_on_demand_goes_on_when_everybody_who_works_on_it_is_killed() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    let content = tree::bytes(5, 200 << 20);
    fs::write(pfs.join("large"), &content).unwrap();
    let (path, text) = mounted(&cluster, &[]);
    let (source, target) = (pfs.join("large"), format!("{text}/large"));
    let accepted = cluster.forebay(&["stage", "in", source.to_str().unwrap(), &target]).expect_success();
    assert!(accepted.stderr.contains(&format!("stage wait {target}")), "{}", accepted.stderr);
    for (program, argument) in [("forebay-stage", ""), ("forebay-control", ""), ("forebay-node", "n0")] {
        // The copy may be over by then; its worker is then gone already.
        let found = cluster.processes().into_iter().find(|process| {
            process.program() == program && (argument.is_empty() || process.has_argument(argument))
        });
        found.into_iter().for_each(|process| process.signal(Signal::KILL));
    }
    let waited = cluster.forebay(&["stage", "wait", &target, "--json"]).expect_success().json();
    assert_eq!(waited["stages"][0]["state"], "complete", "{waited}");
    assert_eq!(waited["stages"][0]["progress"]["bytes_verified"], 200 << 20);
    assert!(fs::read(path.join("large")).unwrap() == content, "the copy differs");
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1"]).expect_success();
}

#[test]
fn a_failed_stage_names_its_file_and_can_be_tried_again_or_given_up() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    let (path, text) = mounted(&cluster, &[]);
    fs::write(path.join("result"), "42").unwrap();
    let obstacle = pfs.join("obstacle");
    fs::write(&obstacle, "in the way").unwrap();
    let (source, target) = (format!("{text}/result"), obstacle.join("result"));
    let failed = cluster.forebay(&["stage", "out", &source, target.to_str().unwrap(), "--wait"]);
    assert_eq!(failed.code(), 74, "{}{}", failed.stdout, failed.stderr);
    let status = cluster.forebay(&["stage", "status", &source]).expect_success();
    for word in ["obstacle", "Not a directory", "a file is in the way"] {
        assert!(failed.stderr.contains(word), "no {word} in\n{}", failed.stderr);
        assert!(status.stdout.contains(word), "no {word} in\n{}", status.stdout);
    }
    let unclear = cluster.forebay(&["stage", "status"]);
    assert!(unclear.code() == 64 && unclear.stderr.contains("--token"), "{}", unclear.stderr);
    fs::remove_file(&obstacle).unwrap();
    cluster.forebay(&["stage", "retry", "--path", &source, "--wait"]).expect_success();
    assert_eq!(fs::read_to_string(&target).unwrap(), "42");
    let nothing = cluster.forebay(&["stage", "retry", "--path", &source]);
    assert_eq!(nothing.code(), 66, "{}", nothing.stderr);

    let later = pfs.join("later");
    let words = ["stage", "out", &source, later.to_str().unwrap(), "--at-job-end"];
    cluster.forebay(&words).expect_success();
    let status = cluster.forebay(&["stage", "status", &source, "--json"]).expect_success().json();
    assert_eq!(status["stages"][0]["state"], "deferred", "{status}");
    cluster.forebay(&["stage", "cancel", &source]).expect_success();
    let status = cluster.forebay(&["stage", "status", &source, "--json"]).expect_success().json();
    assert_eq!(status["stages"].as_array().map(Vec::len), Some(0), "{status}");
    for wrong in [
        &["stage", "in", "/etc/hostname", "/etc/x"][..],
        &["stage", "out", "$DW_JOB_STRIPED/x", "/x", "--token", "9"],
    ] {
        assert_ne!(cluster.forebay(wrong).code(), 0, "{wrong:?}");
    }
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1"]).expect_success();
    assert!(!later.exists());
}

#[test]
fn a_retry_of_a_buffer_without_a_job_releases_nothing() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    let (path, text) = mounted(&cluster, &[]);
    fs::write(path.join("result"), "42").unwrap();
    fs::write(path.join("rest"), "nobody has asked for it").unwrap();
    let obstacle = pfs.join("obstacle");
    fs::write(&obstacle, "in the way").unwrap();
    let (source, target) = (format!("{text}/result"), obstacle.join("result"));
    let failed = cluster.forebay(&["stage", "out", &source, target.to_str().unwrap(), "--wait"]);
    assert_eq!(failed.code(), 74, "{}{}", failed.stdout, failed.stderr);
    fs::remove_file(&obstacle).unwrap();
    cluster.forebay(&["stage", "retry", "1"]).expect_success();
    assert_eq!(fs::read_to_string(&target).unwrap(), "42");
    assert_eq!(
        fs::read_to_string(path.join("rest")).unwrap(),
        "nobody has asked for it",
        "it is still mounted"
    );
    assert_eq!(cluster.forebay(&["stage", "retry", "1"]).code(), 66, "nothing has failed any more");
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1"]).expect_success();
}

#[test]
fn what_a_failed_stage_has_copied_is_not_copied_again() {
    let cluster = Cluster::new();
    let (path, text) = mounted(&cluster, &["--nodes", "2"]);
    fs::create_dir(path.join("d")).unwrap();
    for name in ["good", "bad"] {
        fs::write(path.join("d").join(name), name).unwrap();
    }
    // A folder stands where a file is to be.
    let target = cluster.pfs("pfs").join("d");
    fs::create_dir_all(target.join("bad")).unwrap();
    let (source, destination) = (format!("{text}/d"), target.to_str().unwrap());
    let inode = || fs::metadata(target.join("good")).expect("the other file is copied").ino();
    let ask = ["stage", "out", &source, destination, "--wait"];
    assert_eq!(cluster.forebay(&ask).code(), 74);
    let first = inode();
    assert_eq!(cluster.forebay(&["stage", "retry", "--path", &source, "--wait"]).code(), 74);
    fs::remove_dir(target.join("bad")).expect("it is empty");
    cluster.forebay(&ask).expect_success();
    assert_eq!(inode(), first, "it was copied again");
    assert_eq!(fs::read_to_string(target.join("bad")).unwrap(), "bad");
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1"]).expect_success();
    cluster.assert_nothing_left();
}

#[test]
fn a_job_stages_by_itself_and_what_waits_for_its_end_is_there_afterwards() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    for name in ["a", "b"] {
        fs::write(pfs.join(name), name).unwrap();
    }
    let forebay = tests::cluster::program_folder().join("forebay");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\nset -e\n\
         printf '{p}/a $DW_JOB_STRIPED/in/a\\n{p}/b $DW_JOB_STRIPED/in/b\\n' > {p}/list\n\
         {f} stage in --type list {p}/list --wait\n\
         cat ${{DW_JOB_STRIPED}}in/a ${{DW_JOB_STRIPED}}in/b > $DW_JOB_STRIPED/ab\n\
         {f} stage out $DW_JOB_STRIPED/ab {p}/now --wait\n\
         cat {p}/now\n\
         {f} stage out $DW_JOB_STRIPED/ab {p}/end --at-job-end\n\
         [ ! -e {p}/end ]\n\
         echo again >> $DW_JOB_STRIPED/ab\n",
        p = pfs.display(),
        f = forebay.display()
    );
    let outcome = cluster.run(&script, &[]).expect_success();
    assert!(outcome.stdout.contains("ab"), "{}", outcome.stdout);
    assert_eq!(fs::read_to_string(pfs.join("end")).unwrap(), "abagain\n");
    cluster.assert_nothing_left();
}

#[test]
fn what_was_asked_for_is_staged_out_under_that_name_also_when_the_job_renames_it_afterwards() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    let forebay = tests::cluster::program_folder().join("forebay");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\nset -e\n\
         cd $DW_JOB_STRIPED; mkdir -p above folder/deep; echo folder > folder/deep/f\n\
         for name in above/renamed replaced removed; do echo $name > $name; done\n\
         for name in above/renamed replaced removed folder; do\n\
         {f} stage out $DW_JOB_STRIPED/$name {p}/$name --at-job-end; done\n\
         mv above/renamed elsewhere; mv folder other; rmdir above; rm removed\n\
         echo new > tmp; mv tmp replaced\n",
        p = pfs.display(),
        f = forebay.display()
    );
    cluster.run(&script, &[]).expect_success();
    let read = |name: &str| fs::read_to_string(pfs.join(name)).unwrap_or_default();
    assert_eq!((read("above/renamed"), read("folder/deep/f")), ("above/renamed\n".into(), "folder\n".into()));
    assert_eq!(read("replaced"), "new\n", "what has the name is what was meant");
    assert!(fs::symlink_metadata(pfs.join("removed")).is_err());
    cluster.assert_nothing_left();
}

#[test]
fn of_many_small_files_one_that_fails_keeps_no_other_from_its_place() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    fs::write(pfs.join("obstacle"), "in the way").unwrap();
    let (path, text) = mounted(&cluster, &["--nodes", "2"]);
    let mut list = String::new();
    for number in 0..300 {
        fs::write(path.join(format!("f{number}")), tree::bytes(number, 100 + number as usize)).unwrap();
        let folder = if number == 77 { "obstacle" } else { "out" };
        list += &format!("$DW_JOB_STRIPED/f{number} {}/{folder}/f{number}\n", pfs.display());
    }
    fs::write(pfs.join("list"), list).unwrap();
    let list = pfs.join("list");
    let words =
        ["stage", "out", "--type", "list", list.to_str().unwrap(), "--token", "1", "--wait", "--json"];
    let done = cluster.forebay(&words);
    assert_eq!(done.code(), 74, "{}", done.stderr);
    let done = done.json();
    let stages = done["stages"].as_array().unwrap();
    let failed: Vec<_> = stages.iter().filter(|stage| stage["state"] != "complete").collect();
    assert_eq!((stages.len(), failed.len()), (300, 1), "{failed:?}");
    assert!(failed[0]["error"]["message"].as_str().unwrap().contains("obstacle"), "{}", failed[0]);
    for number in (0..300).filter(|number| *number != 77) {
        let copy = fs::read(pfs.join(format!("out/f{number}"))).unwrap();
        assert!(copy == tree::bytes(number, 100 + number as usize), "f{number} differs");
    }
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1", "--discard"]).expect_success();
}

#[test]
fn a_buffer_is_not_staged_into_itself() {
    let cluster = Cluster::new();
    let (path, text) = mounted(&cluster, &[]);
    fs::write(path.join("file"), "x").unwrap();
    let inside = format!("{text}/copy");
    let refused = cluster.forebay(&["stage", "out", &text, &inside, "--wait"]);
    assert!(
        !refused.status.success() && refused.stderr.contains("is in the buffer itself"),
        "{}",
        refused.stderr
    );
    assert!(fs::metadata(&inside).is_err());
    cluster.forebay(&["umount", &text]).expect_success();
    cluster.forebay(&["rm", "1", "--discard"]).expect_success();
    cluster.assert_nothing_left();
}
