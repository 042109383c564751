//! Root of a compute node, in a pool with `root_squash`.

use std::fs;
use std::time::Duration;

use tests::cluster::Outcome;
use tests::hosts::plain;
use tests::processes::wait_until;
use tests::sharing::{ADA, GRACE, Session, Site};

use crate::pool;

const SOON: Duration = Duration::from_secs(60);

/// What ada has in `$B`, which everybody may write to.
const FILES: &str = "umask 022; chmod 1777 $B; cd $B; echo secret > key; chmod 600 key; \
    setfattr -n user.k -v v key; echo shown > shown; echo all > all; chmod 666 all; \
    mkdir dir; echo f > dir/f; mkdir -m 700 closed; echo inside > closed/f; chmod 666 closed/f; ln -s to closed/link";

/// What root tries with it, and nobody may do. `ada` runs a command as she does, on whose way names are cached.
const REFUSED: &[&str] = &[
    "cat key",
    "ada cat key; cat key",
    "ada cat closed/f; cat closed/f",
    "ada cat closed/f; echo x >> closed/f",
    "ada ls -l closed/link; readlink -v closed/link",
    "ada ls closed; ls closed",
    "echo x > key",
    "echo x >> shown",
    "dd if=/dev/zero of=key bs=4k count=1 oflag=direct",
    "truncate -s 0 shown",
    "touch -d yesterday all",
    "rm shown",
    "rm dir/f",
    "rm -r dir",
    "mv shown mine",
    "mv all shown",
    "touch dir/new",
    "mkdir dir/new",
    "ln -s to dir/new",
    "mkfifo dir/new",
    "mknod device c 1 3",
    "ln key new",
    "ln shown dir/new",
    "chmod 777 key",
    "chown 0 shown",
    "chown 2002 shown",
    "chgrp 2002 shown",
    "getfattr -n user.k key",
    "setfattr -n user.k -v w shown",
    "setfattr -x user.k key",
    "setfattr -n trusted.k -v w all",
    "setfacl -m u:0:rwx key",
    "cat /proc/$HOLDER/fd/0",
    "echo x > /proc/$HOLDER/fd/0",
    "python3 -c 'import os; os.open(\"key\", os.O_RDWR)'",
    "python3 -c 'import os; d = os.open(\"closed\", os.O_PATH); os.open(\"f\", os.O_RDWR, dir_fd=d)'",
    "python3 -c 'import os; os.chdir(\"closed\"); open(\"f\")'",
    "python3 -c \"$BY_HANDLE\"",
];

/// What root may do as everybody may; and what it makes is nobody's.
const ALLOWED: &str = "set -e; umask 022; cd $B; cat shown; echo more >> all; touch all; cat all; cat dir/f; ls dir; \
    echo own > own; mkdir owned; echo in > owned/f; ln -s to link; mkfifo fifo; ln own again; chmod 600 own; cat own; \
    setfattr -n user.k -v v own; getfattr -n user.k --only-values own; echo; \
    stat -c %u:%g own owned owned/f link fifo; mv own owned/own; echo x >> owned/own; rm -r owned again link fifo";

const SEEN: &str =
    "shown\nall\nmore\nf\nf\nown\nv\n65534:65534\n65534:65534\n65534:65534\n65534:65534\n65534:65534\n";

/// Opens `key` by the handle that the kernel gives for it.
const BY_HANDLE: &str = r"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(136)
ctypes.memmove(handle, (128).to_bytes(4, 'little'), 4)
mount = ctypes.c_int()
if libc.name_to_handle_at(-100, b'key', handle, ctypes.byref(mount), 0): raise SystemExit('no handle')
if libc.open_by_handle_at(os.open('.', os.O_RDONLY), handle, 2) < 0:
    raise SystemExit(os.strerror(ctypes.get_errno()))
";

/// Runs a shell command on n3 as root, in the folder `$B`; `holder` is a process that has `key` open.
fn as_root(site: &Site, folder: &str, holder: &str, command: &str) -> Outcome {
    let ada = format!("setpriv --reuid={0} --regid={0} --clear-groups", ADA.id);
    let command = format!(
        "B={folder}; HOLDER={holder}; BY_HANDLE=$(cat <<'EOF'\n{BY_HANDLE}\nEOF\n); \
         ada() {{ {ada} \"$@\" > /dev/null || exit 77; }}; cd $B || exit 78; {command}"
    );
    site.on("n3", &["bash", "-c", &command])
}

/// Root of n3 has the rights of nobody in what ada has in this folder.
fn assert_squashed(site: &Site, ada: &Session<'_>, folder: &str) {
    let of_ada = |command: &str| ada.run(&format!("B={folder}; {command}"));
    of_ada(FILES).expect_success();
    let holder = of_ada("cd $B; sleep 1000 < key > /dev/null 2>&1 & echo $!").expect_success().stdout;
    let harm = |command: &&str| {
        let outcome = as_root(site, folder, holder.trim(), command);
        let is_denied =
            ["ermission denied", "not permitted"].iter().any(|word| outcome.stderr.contains(word));
        let is_refused = !outcome.status.success() && is_denied && ![77, 78].contains(&outcome.code());
        (!is_refused).then(|| format!("{command}: {outcome:?}"))
    };
    let done: Vec<String> = REFUSED.iter().filter_map(harm).collect();
    assert!(done.is_empty(), "not refused:\n{}", done.join("\n"));
    let outcome = as_root(site, folder, "0", ALLOWED).expect_success();
    assert_eq!(outcome.stdout, SEEN);
    let left = "cd $B; cat key shown all dir/f closed/f; stat -c %u:%a key shown all dir closed; \
                getfattr --only-values -n user.k key; ls . dir closed";
    let left = of_ada(&format!("kill {}; {left}", holder.trim())).expect_success();
    let wanted = "secret\nshown\nall\nmore\nf\ninside\n2001:600\n2001:644\n2001:666\n2001:755\n2001:700\nv\
                  .:\nall\nclosed\ndir\nkey\nshown\n\nclosed:\nf\nlink\n\ndir:\nf\n";
    assert_eq!(left.stdout, wanted, "{}", left.stderr);
}

/// A script of root's, and what is said of it.
fn refused_to_root(site: &Site, lines: &str) -> Outcome {
    let (token, script) = (site.name(""), site.folder().join(site.name("root-")));
    fs::write(&script, format!("#!/bin/sh\n{lines}\n")).expect("the folder is ours");
    let owner = ["--caller", "tests", "--user", "0", "--groupid", "0", "--capacity", "wlm_pool:16MiB"];
    site.call("setup", &token, &[&owner[..], &["--job", plain(&script)]].concat())
}

pub fn root(site: &Site) {
    pool::set(site, "root_squash", true);
    let buffer = site.shared_buffer();
    let own = "#DW jobdw type=scratch access_mode=striped capacity=64MiB";
    let mut ada = site.session(ADA, &buffer, own);
    ada.mount();
    let points = site.mounts("n3");
    let [shared, exclusive] = [true, false].map(|is_shared| {
        let found = points.iter().find(|point| point.contains(&buffer) == is_shared);
        found.unwrap_or_else(|| panic!("not mounted: {points:?}")).as_str()
    });
    ada.run(&format!("chmod 755 {exclusive}")).expect_success();
    assert_squashed(site, &ada, shared);
    // Of one host: the kernel keeps names, and reads files through its pages.
    assert_squashed(site, &ada, exclusive);
    goes_on(site, &ada, &buffer, [shared, exclusive]);
    has_no_buffers(site, &buffer, own);
    ada.end();
    site.destroy(&buffer);
    pool::set(site, "root_squash", false);
    is_root_elsewhere(site);
}

/// A mount whose process died, and one that has another credential, squashes root as before.
fn goes_on(site: &Site, ada: &Session<'_>, buffer: &str, folders: [&str; 2]) {
    site.on("head", &[&site.program("forebay"), "rekey", buffer]).expect_success();
    for process in site.processes("forebay-mount", plain(&site.state_of("n3"))) {
        process.kill();
    }
    for folder in folders {
        let secret = || ada.run(&format!("cat {folder}/key")).stdout == "secret\n";
        assert!(wait_until(SOON, secret), "the mount does not come back");
        let outcome = as_root(site, folder, "0", "cat key");
        assert!(outcome.stderr.contains("Permission denied"), "{outcome:?}");
        let makes = "echo x > after; [ $(stat -c %u after) = 65534 ]; rm after";
        as_root(site, folder, "0", makes).expect_success();
    }
}

/// Root has no buffers there, and uses none: its stages would have its rights.
fn has_no_buffers(site: &Site, buffer: &str, own: &str) {
    let uses = format!("#DW persistentdw name={buffer}");
    for lines in [own, uses.as_str()] {
        let outcome = refused_to_root(site, lines);
        assert!(!outcome.status.success() && outcome.stdout.contains("root_squash"), "{lines}: {outcome:?}");
    }
    let by_hand = site.on("n3", &[&site.program("forebay"), "mount", "--persistent", buffer]);
    assert!(by_hand.stderr.contains("root_squash"), "{by_hand:?}");
}

/// Where nobody says otherwise.
fn is_root_elsewhere(site: &Site) {
    let buffer = site.shared_buffer();
    let mut grace = site.session(GRACE, &buffer, "");
    grace.mount();
    let is_root = format!("cd {}; echo x > file && stat -c %u file; rm file", grace.mountpoint.display());
    let outcome = site.on("n3", &["bash", "-c", &is_root]).expect_success();
    assert_eq!(outcome.stdout, "0\n");
    grace.end();
    site.destroy(&buffer);
}
