//! What stages keep, and what happens when they fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tests::cluster::Cluster;
use tests::tree;

/// A buffer of 512 MiB with one folder staged in to `tree`, and its `source` staged out to `target`.
fn script(from: &Path, source: &str, target: &Path, commands: &str) -> String {
    format!(
        "#!/bin/bash\n#DW jobdw capacity=512MiB access_mode=striped type=scratch\n\
         #DW stage_in type=directory source={} destination=$DW_JOB_STRIPED/tree\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/{source} destination={}\n{commands}\n",
        from.display(),
        target.display(),
    )
}

#[track_caller]
fn a_tree_survives_the_way_in_and_out(nodes: &str) {
    let cluster = Cluster::new();
    let original = cluster.pfs("original");
    let returned = cluster.folder().join("returned/tree");
    tree::generate(&original).expect("the folder is ours");
    fs::create_dir(cluster.folder().join("returned")).expect("the folder is ours");

    let compare = format!(
        "rsync -nrlptHXO --checksum --itemize-changes {}/ $DW_JOB_STRIPED/tree/ > differences.txt",
        original.display()
    );
    cluster.run(&script(&original, "tree", &returned, &compare), &["--nodes", nodes]).expect_success();

    let differences = fs::read_to_string(cluster.work.join("differences.txt")).expect("the job wrote it");
    assert_eq!(differences, "", "the job sees something else than what was staged in");
    tree::assert_equal(&original, &returned);
    let sparse = tree::occupied_bytes(&returned.join("sparse")).expect("it was staged out");
    assert!(sparse < 2 << 20, "the holes of a sparse file were filled: {sparse} bytes on disk");
    cluster.assert_nothing_left();
}

#[test]
fn a_tree_with_links_holes_and_modes_survives_the_way_in_and_out_with_one_node() {
    a_tree_survives_the_way_in_and_out("1");
}

#[test]
fn a_tree_with_links_holes_and_modes_survives_the_way_in_and_out_with_four_nodes() {
    a_tree_survives_the_way_in_and_out("4");
}

/// The root of a buffer is closed to others; a copy of what is in it is not, unless the job says so.
#[test]
fn the_root_of_a_buffer_becomes_a_folder_as_its_user_makes_them() {
    let cluster = Cluster::new();
    let original = cluster.pfs("original");
    let there = cluster.pfs("there");
    fs::set_permissions(&there, fs::Permissions::from_mode(0o2775)).expect("the folder is ours");
    for (target, commands, mode) in
        [("new", "", 0o755), ("there", "", 0o2775), ("closed", "chmod 710 $DW_JOB_STRIPED", 0o710)]
    {
        let target = cluster.folder().join(target);
        let commands = format!("{commands}\necho result >$DW_JOB_STRIPED/result\n");
        cluster.run(&script(&original, "", &target, &commands), &[]).expect_success();
        assert_eq!(fs::read_to_string(target.join("result")).expect("it was staged out"), "result\n");
        let found = fs::metadata(&target).expect("it was made").permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{}", target.display());
    }
}

#[test]
fn files_and_lists_are_staged_to_the_names_that_the_directives_give() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    for name in ["one", "two", "three"] {
        fs::write(pfs.join(name), tree::bytes(3, 100_000)).expect("the folder is ours");
    }
    let list = pfs.join("list");
    let pfs_path = pfs.display();
    fs::write(
        &list,
        format!("{pfs_path}/two $DW_JOB_STRIPED/from/list\n{pfs_path}/three $DW_JOB_STRIPED/third\n"),
    )
    .expect("the folder is ours");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
         #DW stage_in type=file source={pfs_path}/one destination=$DW_JOB_STRIPED/deep/new/name\n\
         #DW stage_in type=list source={}\n\
         cp ${{DW_JOB_STRIPED}}from/list ${{DW_JOB_STRIPED}}third ${{DW_JOB_STRIPED}}deep/new/\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/deep/new/third destination={pfs_path}/third.out\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/deep/new/list destination={pfs_path}/two.out\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/deep/new/name destination={pfs_path}/one.out\n",
        list.display()
    );
    cluster.run(&script, &[]).expect_success();
    for name in ["one", "two", "three"] {
        let out = if name == "three" { "third.out".into() } else { format!("{name}.out") };
        assert!(fs::read(pfs.join(name)).unwrap() == fs::read(pfs.join(out)).unwrap(), "{name} differs");
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_failed_stage_in_means_that_the_job_does_not_start() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    // More than the buffer holds: seen while copying, not when the script is checked.
    fs::write(pfs.join("large"), tree::bytes(1, 40 << 20)).expect("the folder is ours");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n\
         #DW stage_in type=directory source={} destination=$DW_JOB_STRIPED/\ntouch started\n",
        pfs.display()
    );
    let outcome = cluster.run(&script, &["--volume", "directory"]);
    assert_ne!(outcome.code(), 0, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("large"), "the error names the file:\n{}", outcome.stderr);
    assert!(!cluster.work.join("started").exists(), "the job started without its input");
    cluster.assert_nothing_left();
}

#[test]
fn a_failed_stage_out_keeps_the_data_until_a_retry_lands_it() {
    let cluster = Cluster::new();
    let pfs = cluster.pfs("pfs");
    let original = cluster.pfs("original");
    tree::generate(&original).expect("the folder is ours");
    // A file stands where the target's folder must be made.
    let obstacle = pfs.join("obstacle");
    fs::write(&obstacle, "in the way").expect("the folder is ours");
    let target = obstacle.join("results");

    let outcome = cluster.run(&script(&original, "tree", &target, "touch finished"), &[]);
    assert_eq!(outcome.code(), 74, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(cluster.work.join("finished").exists(), "the job did not run");
    assert!(outcome.stderr.contains("obstacle"), "the error names the file:\n{}", outcome.stderr);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("forebay stage retry"), "the error says how to retry:\n{said}");
    cluster.assert_nothing_left();

    let tokens = cluster.tokens();
    assert_eq!(tokens.len(), 1, "status lists the buffer that was kept");
    assert_ne!(cluster.forebay(&["stage", "retry", &tokens[0]]).code(), 0, "nothing has changed yet");
    assert_eq!(cluster.tokens(), tokens, "a failed retry keeps the data too");

    fs::remove_file(&obstacle).expect("the folder is ours");
    cluster.forebay(&["stage", "retry", &tokens[0]]).expect_success();
    tree::assert_equal(&original, &target);
    assert!(cluster.tokens().is_empty(), "a buffer whose data has landed is released");
    cluster.assert_nothing_left();
}

#[test]
fn a_job_that_failed_owes_nothing_that_it_never_made_and_one_that_succeeded_does() {
    let cluster = Cluster::new();
    let target = cluster.pfs("target");
    let script = |commands: &str| {
        format!(
            "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n\
             #DW stage_out type=directory source=$DW_JOB_STRIPED/never destination={p}/never\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/made destination={p}/made\n\
             echo it >$DW_JOB_STRIPED/made; {commands}\n",
            p = target.display()
        )
    };
    let failed = cluster.run(&script("exit 3"), &["--volume", "directory"]);
    assert_eq!(failed.code(), 3, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stdout.contains("/never: the job failed before it made this"), "{}", failed.stdout);
    assert_eq!(fs::read_to_string(target.join("made")).expect("it is staged out"), "it\n");
    assert!(cluster.tokens().is_empty(), "its buffer is released");

    let succeeded = cluster.run(&script("exit 0"), &["--volume", "directory"]);
    assert_eq!(succeeded.code(), 74, "{}{}", succeeded.stdout, succeeded.stderr);
    let token = cluster.tokens().remove(0);
    let give_up = format!("`forebay rm {token} --discard");
    assert!(succeeded.stdout.contains(&give_up), "{}", succeeded.stdout);
    cluster.forebay(&["rm", &token, "--discard"]).expect_success();
    cluster.assert_nothing_left();
}

#[test]
fn a_retry_copies_what_failed_and_not_again_what_is_there() {
    use std::os::unix::fs::MetadataExt;
    let cluster = Cluster::new();
    let (original, target) = (cluster.pfs("original"), cluster.pfs("target"));
    for name in ["good", "bad"] {
        fs::write(original.join(name), name).expect("the folder is ours");
    }
    // A folder stands where a file is to be.
    fs::create_dir(target.join("bad")).expect("the folder is ours");
    let outcome = cluster.run(&script(&original, "tree", &target, "true"), &[]);
    assert_eq!(outcome.code(), 74, "{}\n{}", outcome.stdout, outcome.stderr);
    let inode = || fs::metadata(target.join("good")).expect("the other file is copied").ino();
    let first = inode();

    fs::remove_dir(target.join("bad")).expect("it is empty");
    cluster.forebay(&["stage", "retry", &cluster.tokens()[0]]).expect_success();
    tree::assert_equal(&original, &target);
    assert_eq!(inode(), first, "it was copied again");
    cluster.assert_nothing_left();
}

#[test]
fn rm_releases_a_buffer_and_says_what_was_not_staged_out() {
    let cluster = Cluster::new();
    let original = cluster.pfs("original");
    fs::write(original.join("file"), "content").expect("the folder is ours");
    let obstacle = cluster.pfs("pfs").join("obstacle");
    fs::write(&obstacle, "in the way").expect("the folder is ours");
    let target = obstacle.join("results");
    cluster.run(&script(&original, "tree", &target, "true"), &[]);
    let tokens = cluster.tokens();

    let outcome = cluster.forebay(&["rm", &tokens[0], "--discard"]).expect_success();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("$DW_JOB_STRIPED/tree"), "it does not say what is lost:\n{said}");
    assert!(cluster.tokens().is_empty());
    assert_ne!(cluster.forebay(&["rm", &tokens[0]]).code(), 0, "there is nothing left to remove");
    cluster.assert_nothing_left();
}

#[test]
fn a_stage_out_to_a_pfs_that_was_unmounted_since_is_owed_until_it_is_mounted_again() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can mount");
    }
    let cluster = Cluster::new();
    let (files, pfs) = (cluster.pfs("files"), cluster.pfs("lustre"));
    let mount = |words: &[&str]| {
        let done = Command::new(words[0]).args(&words[1..]).arg(&pfs).status().unwrap();
        assert!(done.success(), "{words:?}");
    };
    let bind = ["mount", "--bind", files.to_str().unwrap()];
    mount(&bind);
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/result destination={0}/result\n\
         echo done > ${{DW_JOB_STRIPED}}result; umount {0}\n",
        pfs.display()
    );
    let outcome = cluster.run(&script, &[]);
    assert_eq!(outcome.code(), 74, "{}\n{}", outcome.stdout, outcome.stderr);
    let named = format!("{} (", pfs.display());
    assert!(outcome.stderr.contains(&named), "the mount point is named:\n{}", outcome.stderr);
    assert_eq!(fs::read_dir(&pfs).unwrap().count(), 0, "something lies below the mount point");
    let tokens = cluster.tokens();
    assert_ne!(cluster.forebay(&["stage", "retry", &tokens[0]]).code(), 0, "nothing has changed yet");

    mount(&bind);
    let retried = cluster.forebay(&["stage", "retry", &tokens[0]]);
    mount(&["umount"]);
    retried.expect_success();
    assert_eq!(fs::read_to_string(files.join("result")).unwrap(), "done\n");
    cluster.assert_nothing_left();
}
