//! `forebay check` says what `sbatch` says, and what would become of the job.

use std::fs;

use tests::cluster::Outcome;

use crate::site::{ADA, GRACE, Site, User, own};

const JOBDW: &str = "#DW jobdw type=scratch access_mode=striped capacity=16MiB";

/// `forebay check` of a script of the user's.
fn check(site: &Site, user: User, text: &str) -> Outcome {
    let folder = site.pfs(user, "checked");
    let file = folder.join("checked.sh");
    fs::write(&file, text).expect("ours");
    own(&file, user);
    let words =
        format!("cd {} && {}/bin/forebay check checked.sh", folder.display(), site.folder().display());
    site.on(&format!("head/{}", user.name), &["bash", "-c", &words])
}

#[track_caller]
fn says(outcome: &Outcome, code: i32, parts: &[&str]) {
    assert_eq!(outcome.status.code(), Some(code), "{}{}", outcome.stdout, outcome.stderr);
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part:?} in\n{}", outcome.stderr);
    }
}

/// Both take it, or both refuse it.
pub fn as_sbatch(site: &Site) {
    let pfs = site.pfs(ADA, "checked");
    let both = format!(
        "#!/bin/bash\n#SBATCH -N1\n{JOBDW}\n#DW stage_in type=file source=/etc/hostname destination=$DW_JOB_STRIPED/a\n\
         #SBATCH hetjob\n#SBATCH -N1\n{JOBDW}\n\
         #DW stage_in type=file source=/etc/hosts destination=$DW_JOB_STRIPED/a\ntrue\n"
    );
    says(&check(site, ADA, &both), 0, &[]);
    site.submit(ADA, &pfs, &both).cancel(&["--hurry"]);
    let second = both.replace("source=/etc/hosts ", "source=/no/such ");
    says(&check(site, ADA, &second), 66, &["line 8: source /no/such"]);

    let late = format!(
        "#!/bin/bash\n#SBATCH -o %j.out\n{JOBDW}\necho\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/a destination=%d/a\n"
    );
    says(&check(site, ADA, &late), 65, &["line 5: this directive stands below the first command"]);
    assert!(site.try_submit(ADA, &pfs, &late, &[]).is_err());
    let parted = late.replace("%d", "/tmp").replace("echo", "#SBATCH hetjob\necho");
    says(&check(site, ADA, &parted), 65, &["line 6: this directive stands below the first command"]);

    let whole = "--bb=\"capacity=16MiB access=striped type=scratch\"";
    for (option, code) in [(whole, 0), ("--bb=\"capacity=16MiB\"", 65)] {
        let script = format!("#!/bin/bash\n#SBATCH {option}\ntrue\n");
        says(&check(site, ADA, &script), code, if code == 0 { &[] } else { &["#SBATCH --bb: ", "type="] });
        match site.try_submit(ADA, &pfs, &script, &[]) {
            Ok(job) => job.cancel(&["--hurry"]),
            Err(text) => assert!(code == 65, "{text}"),
        }
    }
}

/// Nothing hides what control says, and what would only be seen in the queue is said as well.
pub fn in_the_queue(site: &Site) {
    let several = "#!/bin/no-such-shell\n#SBATCH -c many\n\
                   #DW jobdw type=scratch access_mode=striped capacity=100TiB\n\
                   #DW persistentdw name=no-such\n\
                   #DW stage_out type=file source=$DW_JOB_STRIPED/a destination=/usr/a\n";
    let parts = [
        "line 1: /bin/no-such-shell",
        "-c: `many`",
        "line 3: ",
        "100 TiB",
        "line 4: there is no persistent buffer no-such",
        "line 5: destination /usr/a",
    ];
    says(&check(site, ADA, several), 65, &parts);
    let pool = format!("#!/bin/bash\n{JOBDW} pool=nope\n#DW persistentdw name=no-such\n");
    says(&check(site, ADA, &pool), 65, &["line 2: there is no pool nope", "line 3: there is no persistent"]);

    let line = |what: &str| format!("#!/bin/bash\n#BB {what}\n");
    for (name, mode) in [("open-one", "striped"), ("own-one", "striped(shared=no)")] {
        let create =
            line(&format!("create_persistent name={name} capacity=32MiB access_mode={mode} type=scratch"));
        says(&check(site, ADA, &create), 0, &[]);
        site.submit(ADA, &site.pfs(ADA, "made"), &create).wait_success();
        let destroy = line(&format!("destroy_persistent name={name}"));
        says(&check(site, GRACE, &destroy), 65, &["line 2: the persistent buffer ", "only its owner"]);
        says(&check(site, GRACE, &create), 65, &[&format!("line 2: the name {name} is that of a buffer")]);
        says(&check(site, ADA, &destroy), 0, &[]);
        let using = format!("#!/bin/bash\n#DW persistentdw name={name}\n");
        says(&check(site, ADA, &using), 0, &[]);
        says(&check(site, GRACE, &using), if mode == "striped" { 0 } else { 65 }, &[]);
        site.submit(ADA, &site.pfs(ADA, "made"), &destroy).wait_success();
    }
}

/// What control does not take is said of a node's configuration.
pub fn of_a_node(site: &Site) {
    let folder = site.folder().display().to_string();
    let check = |change: &str| {
        let words = format!(
            "sed '{change}' {folder}/etc/n1.toml >/run/checked.toml && \
             {folder}/bin/forebay-node --check --config /run/checked.toml"
        );
        site.on("n1", &["bash", "-c", &words])
    };
    says(&check("s/^pool = .*/pool = \"nope\"/"), 0, &["note: pool: control has no pool nope"]);
    let right = check("");
    says(&right, 0, &["note: a node runs already"]);
    assert!(!right.stderr.contains("note: pool"), "{}", right.stderr);
}
