//! Buffers that outlive jobs, and who may use them.

use crate::job::read;
use crate::site::{ADA, GRACE, Site, User};

fn create(name: &str, access: &str) -> String {
    format!(
        "#!/bin/bash\n#BB create_persistent name={name} capacity=32MiB access_mode={access} type=scratch\ntrue\n"
    )
}

fn destroy(site: &Site, user: User, name: &str) {
    let pfs = site.pfs(user, "destroy");
    let job = site.submit(user, &pfs, &format!("#!/bin/bash\n#BB destroy_persistent name={name}\ntrue\n"));
    job.wait_success();
    let gone = tests::processes::wait_until(std::time::Duration::from_secs(60), || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        !site.dwstat("sessions").contains(name)
    });
    assert!(gone, "{name} is still there:\n{}", site.dwstat("sessions"));
}

/// Created by one job, used by two more (one after the other), destroyed; another user is refused.
pub fn owners_alone(site: &Site) {
    let pfs = site.pfs(ADA, "persistent");
    site.submit(ADA, &pfs, &create("mine", "striped(shared=no)")).wait_success();
    let write = "#!/bin/bash\n#DW persistentdw name=mine\n\
                 echo kept > $DW_PERSISTENT_STRIPED_mine/file; echo $DW_PERSISTENT_STRIPED_mine\n";
    let job = site.submit(ADA, &pfs, write);
    job.wait_success();
    assert!(job.output().ends_with("/\n"), "{}", job.output());
    let stage = format!(
        "#!/bin/bash\n#SBATCH -N 2\n#DW persistentdw name=mine\n\
         #DW stage_out type=file source=$DW_PERSISTENT_STRIPED_mine/file destination={}/file\n\
         srun cat $DW_PERSISTENT_STRIPED_mine/file\n",
        pfs.display()
    );
    let job = site.submit(ADA, &pfs, &stage);
    job.wait_success();
    assert_eq!((job.output().as_str(), read(&pfs.join("file")).as_str()), ("kept\nkept\n", "kept\n"));

    let other = site.pfs(GRACE, "thief");
    let steal = "#!/bin/bash\n#DW persistentdw name=mine\ncat $DW_PERSISTENT_STRIPED_mine/file\n";
    let refused = site.try_submit(GRACE, &other, steal, &[]).err().expect("it is ada's alone");
    assert!(refused.contains("the persistent buffer mine belongs to user 2001 alone"), "{refused}");
    // Where sbatch is not told who submits, the job does not get it either.
    let job = site.try_submit(GRACE, &other, steal, &["--export=NONE"]).expect("nobody knows better");
    job.wait_shown(&["setup:", "mine"]);
    job.cancel(&[]);
    job.wait_end();
    assert_eq!(job.output(), "");
    destroy(site, ADA, "mine");
}

/// A name as Slurm's own tests have it: made, used from a shell, staged out, named in a command, removed.
pub fn name_with_a_dot(site: &Site) {
    let pfs = site.pfs(ADA, "dotted");
    // Whoever uses it first waits until it is made.
    let first = site.submit(ADA, &pfs, "#!/bin/bash\n#DW persistentdw name=test35.1\nscontrol show burst\n");
    site.submit(ADA, &pfs, &create("test35.1", "striped")).wait_success();
    first.wait_success();
    assert!(first.output().contains("Name=test35.1 "), "{}", first.output());
    let script = format!(
        "#!/bin/bash\n#DW persistentdw name=test35.1\n\
         #DW stage_out type=file source=$DW_PERSISTENT_STRIPED_test35.1/file destination={}/file\n\
         echo kept >$DW_PERSISTENT_STRIPED_test35_1/file\ncat \"$(printenv DW_PERSISTENT_STRIPED_test35.1)/file\"\n",
        pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_success();
    assert_eq!((job.output().as_str(), read(&pfs.join("file")).as_str()), ("kept\n", "kept\n"));
    let scrubbed = site.on("head/ada", &["forebay", "scrub", "test35.1"]);
    assert!(scrubbed.status.success(), "{}", scrubbed.stderr);
    destroy(site, ADA, "test35.1");
}

/// Filled and emptied by its owner without a job; nobody else can.
pub fn filled_without_a_job(site: &Site) {
    let pfs = site.pfs(ADA, "filled");
    site.submit(ADA, &pfs, &create("filled", "striped")).wait_success();
    let (source, target) = (pfs.join("source"), pfs.join("target"));
    std::fs::write(&source, "by hand\n").expect("ours");
    let stage = |user: &str, words: &[&str]| {
        let words = [&["forebay", "stage"], words, &["--persistent", "filled", "--wait"]].concat();
        site.on(&format!("head/{user}"), &words)
    };
    let [source, shown] = [&source, &target].map(|path| path.to_str().expect("plain names"));
    let staged = stage("ada", &["in", source, "in/a file"]);
    assert!(staged.status.success(), "{}{}", staged.stdout, staged.stderr);
    let reads =
        "#!/bin/bash\n#DW persistentdw name=filled\ncat \"$DW_PERSISTENT_STRIPED_filled/in/a file\"\n";
    let job = site.submit(ADA, &pfs, reads);
    job.wait_success();
    assert_eq!(job.output(), "by hand\n");
    let staged = stage("ada", &["out", "in/", shown]);
    assert!(staged.status.success(), "{}{}", staged.stdout, staged.stderr);
    assert_eq!(read(&target.join("a file")), "by hand\n");
    let refused = stage("grace", &["in", source, "in/stolen"]);
    assert_eq!(refused.status.code(), Some(66), "{}", refused.stderr);
    assert!(refused.stderr.contains("the persistent buffer filled is another user's"), "{}", refused.stderr);
    destroy(site, ADA, "filled");
}

/// Removed by its owner without a job: Slurm does not hear of it, and what is gone is gone once.
pub fn removed_without_a_job(site: &Site) {
    let pfs = site.pfs(ADA, "removed");
    site.submit(ADA, &pfs, &create("removed", "striped")).wait_success();
    let rm = |token: &str| site.on("head/ada", &["forebay", "rm", token]);
    let first = rm("removed");
    assert!(first.status.success(), "{}", first.stderr);
    let left = "a job with the line `#BB destroy_persistent name=removed` has run";
    assert!(first.stderr.contains(left), "{}", first.stderr);
    refused(site, "head/ada", &["forebay", "rm", "removed"], 66, "there is no buffer removed");
    destroy(site, ADA, "removed");
    let job = site.submit(
        ADA,
        &pfs,
        "#!/bin/bash\n#DW jobdw capacity=16MiB access_mode=striped type=scratch\ntrue\n",
    );
    job.wait_success();
    let mut told = rm(&job.id.to_string());
    let is_gone = tests::processes::wait_until(std::time::Duration::from_secs(60), || {
        told = rm(&job.id.to_string());
        told.status.code() == Some(66)
    });
    assert!(is_gone, "{:?} {}", told.status, told.stderr);
}

/// A command that succeeds; what it prints.
#[track_caller]
fn done(site: &Site, place: &str, words: &[&str]) -> String {
    let outcome = site.on(place, words);
    assert!(outcome.status.success(), "{words:?}: {}{}", outcome.stdout, outcome.stderr);
    outcome.stdout
}

/// A command that fails with `exit` and says `why`.
#[track_caller]
fn refused(site: &Site, place: &str, words: &[&str], exit: i32, why: &str) {
    let outcome = site.on(place, words);
    assert_eq!(outcome.status.code(), Some(exit), "{words:?}: {}", outcome.stderr);
    assert!(outcome.stderr.contains(why), "{words:?}: {}", outcome.stderr);
}

/// Mounted on a node by whoever may use it, without a job, until he unmounts it.
pub fn mounted_without_a_job(site: &Site) {
    let pfs = site.pfs(ADA, "mounted");
    site.submit(ADA, &pfs, &create("looked-at", "striped")).wait_success();
    let links = pfs.join("sets");
    let link = links.to_str().expect("plain names");
    let mounted = done(site, "n1/ada", &["forebay", "mount", "--persistent", "looked-at", link]);
    assert!(mounted.contains(&format!("forebay umount {link}")), "{mounted}");
    done(site, "n1/ada", &["bash", "-c", &format!("echo by hand >{link}/file")]);
    let shown = done(site, "n1/ada", &["forebay", "status"]);
    assert!(shown.contains("-mount") && shown.contains("forebay umount /"), "{shown}");
    // Another user has a mount of his own, with the rights that the files give him; asked twice, it is one.
    let own = |_| done(site, "n2/grace", &["forebay", "mount", "--persistent", "looked-at"]);
    let [first, again] = [0, 1].map(own);
    assert_eq!(first, again);
    let place = first.lines().next().and_then(|line| line.split(" at ").nth(1)).expect("it is said");
    assert_eq!(done(site, "n2/grace", &["cat", &format!("{place}/file")]), "by hand\n");
    assert!(!site.on("n2/grace", &["touch", &format!("{place}/new")]).status.success());
    refused(site, "n2/ada", &["forebay", "umount", place], 66, "no buffer is mounted at");
    kept_while_in_use(site, link, &shown);
    // While it is mounted it is in use.
    let rm = site.on("head", &["forebay", "rm", "looked-at"]);
    assert!(
        !rm.status.success() && rm.stderr.contains("its owner ends the mount with `forebay rm "),
        "{}",
        rm.stderr
    );
    let ended = done(site, "n1/ada", &["forebay", "umount", link]);
    assert_eq!(ended, "forebay: persistent buffer looked-at is unmounted; what is in it is kept\n");
    assert!(links.symlink_metadata().is_err());
    done(site, "n2/grace", &["forebay", "umount", place]);
    destroy(site, ADA, "looked-at");
}

/// What a program uses is not unmounted, nor removed, by whoever forgot it; nor from a host that cannot see programs.
fn kept_while_in_use(site: &Site, link: &str, status: &str) {
    let line = status.lines().find(|line| line.starts_with("buffer ") && line.contains("-mount"));
    let token = line.and_then(|line| line.split_whitespace().nth(1)).expect("it is shown");
    for ends in ["umount \"$1\"", "rm \"$2\""] {
        let busy = format!(
            "(cd \"$1\" && exec sleep 60) & sleep 1; forebay {ends}; status=$?; kill $!; exit $status"
        );
        refused(site, "n1/ada", &["bash", "-c", &busy, "sh", link, token], 75, "is in use by");
    }
    let why = "programs that use it are not seen from here; call `forebay umount ";
    refused(site, "head/ada", &["forebay", "rm", token], 75, why);
}

/// Where and by whom it is not mounted without a job. Nothing is left of a try.
pub fn mounted_by_nobody_else(site: &Site) {
    let pfs = site.pfs(ADA, "not-mounted");
    site.submit(ADA, &pfs, &create("adas-own", "striped(shared=no)")).wait_success();
    let mount = ["forebay", "mount", "--persistent", "adas-own"];
    refused(site, "n2/grace", &mount, 64, "belongs to user 2001 alone");
    refused(site, "head/ada", &mount, 69, "head has no Forebay compute node");
    let taken = [&mount[..], &[pfs.to_str().expect("plain names")]].concat();
    refused(site, "n1/ada", &taken, 64, "is there already");
    destroy(site, ADA, "adas-own");
}

/// One as scripts for DataWarp make it: two users' jobs at once, and its root belongs to who made it.
pub fn shared_by_two_users(site: &Site) {
    let pfs = site.pfs(ADA, "shared");
    site.submit(ADA, &pfs, &create("ours", "striped")).wait_success();
    let instances = site.dwstat("instances");
    let shown = instances.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert!(shown.into_iter().any(|words| words.ends_with(&["ours", "public", "1"])), "{instances}");
    let open = "#!/bin/bash\n#DW persistentdw name=ours\nmkdir -m 1777 $DW_PERSISTENT_STRIPED_ours/board\n";
    site.submit(ADA, &pfs, open).wait_success();
    let enter = "#!/bin/bash\n#DW persistentdw name=ours\ncd $DW_PERSISTENT_STRIPED_ours\n\
                 stat -c %a:%U .; touch new 2>/dev/null || ls\n";
    let entered = site.submit(GRACE, &site.pfs(GRACE, "enter"), enter);
    entered.wait_success();
    assert_eq!(entered.output(), "755:ada\nboard\n");
    let meet = |own: &str, other: &str| {
        format!(
            "#!/bin/bash\n#DW persistentdw name=ours\nb=$DW_PERSISTENT_STRIPED_ours/board\n\
             echo {own} > $b/{own}\nfor i in $(seq 600); do [ -s $b/{other} ] && break; sleep 0.1; done\ncat $b/{other}\n"
        )
    };
    let graces = site.pfs(GRACE, "shared");
    let first = site.submit(ADA, &pfs, &meet("ada", "grace"));
    let second = site.submit(GRACE, &graces, &meet("grace", "ada"));
    first.wait_success();
    second.wait_success();
    assert_eq!((first.output().as_str(), second.output().as_str()), ("grace\n", "ada\n"));
    destroy(site, ADA, "ours");
}

/// Made and removed without a script: `salloc` and `srun` with `#BB` lines alone, of which Slurm keeps no file.
pub fn without_a_script(site: &Site) {
    let pfs = site.pfs(ADA, "interactive-bb");
    let file = pfs.join("bb.conf");
    let bbf = format!("--bbf={}", file.display());
    let run = |line: &str, command: &[&str]| {
        std::fs::write(&file, format!("{line}\n")).expect("ours");
        let words = [&["timeout", "100", command[0], "-N1", &bbf], &command[1..]].concat();
        let outcome = site.on("head/ada", &words);
        assert!(outcome.status.success(), "{line}: {}{}", outcome.stdout, outcome.stderr);
        outcome.stdout
    };
    let make = |name: &str| {
        format!("#BB create_persistent name={name} capacity=16MiB access_mode=striped type=scratch")
    };
    run(&make("by-salloc"), &["salloc", "true"]);
    assert_eq!(run(&make("by-srun"), &["srun", "echo", "ran"]), "ran\n");
    let path = run(
        "#DW persistentdw name=by-srun",
        &["salloc", "srun", "printenv", "DW_PERSISTENT_STRIPED_by-srun"],
    );
    assert!(path.ends_with("/\n"), "{path}");
    run("#BB destroy_persistent name=by-salloc", &["srun", "true"]);
    run("#BB destroy_persistent name=by-srun", &["salloc", "true"]);
}
