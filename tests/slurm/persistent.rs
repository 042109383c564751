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
    site.submit(ADA, &pfs, &create("mine", "striped")).wait_success();
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
    let job = site.submit(
        GRACE,
        &other,
        "#!/bin/bash\n#DW persistentdw name=mine\ncat $DW_PERSISTENT_STRIPED_mine/file\n",
    );
    job.wait_shown(&["setup:", "mine"]);
    job.cancel(&[]);
    job.wait_end();
    assert_eq!(job.output(), "");
    destroy(site, ADA, "mine");
}

/// A name as Slurm's own tests have it: made, used from a shell, staged out, named in a command, removed.
pub fn name_with_a_dot(site: &Site) {
    let pfs = site.pfs(ADA, "dotted");
    // Who uses it first waits until it is made.
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

/// A shared one: two users' jobs at once.
pub fn shared_by_two_users(site: &Site) {
    let pfs = site.pfs(ADA, "shared");
    site.submit(ADA, &pfs, &create("ours", "striped(shared=yes)")).wait_success();
    let open = "#!/bin/bash\n#DW persistentdw name=ours\nmkdir -m 1777 $DW_PERSISTENT_STRIPED_ours/board\n";
    site.submit(ADA, &pfs, open).wait_success();
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
