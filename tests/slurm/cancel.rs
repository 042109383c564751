//! `scancel` in each phase, with `--hurry` and without: what Slurm then calls is in its plugin, and differs each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::processes::{Process, wait_until};

use crate::job::{Job, read};
use crate::site::{ADA, Site, own};

/// A script that waits in its job for ever, with output that is to be staged out.
fn waiting(pfs: &Path, options: &str) -> String {
    format!(
        "#!/bin/bash\n#SBATCH {options}\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={p}/out\n\
         echo precious > $DW_JOB_STRIPED/out\ntouch {p}/running\nsleep 600\n",
        p = pfs.display()
    )
}

fn running_job<'a>(site: &'a Site, pfs: &Path) -> Job<'a> {
    let job = site.submit(ADA, pfs, &waiting(pfs, "-N 2"));
    job.wait_until("the job runs", || pfs.join("running").exists());
    job
}

/// Without hurry the output is saved, with hurry it is not; both release everything.
pub fn running(site: &Site) {
    let [patient, hurried] = ["cancel", "cancel-hurry"].map(|name| site.pfs(ADA, name));
    let (first, second) = (running_job(site, &patient), running_job(site, &hurried));
    first.cancel(&[]);
    second.cancel(&["--hurry"]);
    first.wait_end();
    second.wait_end();
    assert_eq!(read(&patient.join("out")), "precious\n");
    assert!(!hurried.join("out").exists());
}

/// A job that the pool has no room for yet has nothing, and leaves nothing.
pub fn waiting_for_room(site: &Site) {
    let [first, second] = ["fills", "waits"].map(|name| site.pfs(ADA, name));
    let whole = |pfs: &Path| waiting(pfs, "-N 1").replace("capacity=32MiB", "capacity=1GiB");
    let holder = site.submit(ADA, &first, &whole(&first));
    holder.wait_until("the job runs", || first.join("running").exists());
    for hurry in [&[][..], &["--hurry"]] {
        let job = site.submit(ADA, &second, &whole(&second));
        job.wait_shown(&["Reason=BurstBufferResources"]);
        job.cancel(hurry);
        job.wait_end();
    }
    assert!(!second.join("running").exists());
    holder.cancel(&["--hurry"]);
    holder.wait_end();
}

/// `scontrol requeue`: what the first run wrote is staged out, and the second begins with an empty buffer.
pub fn requeued(site: &Site) {
    let pfs = site.pfs(ADA, "requeue");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={p}/out\n\
         echo run $SLURM_RESTART_COUNT >> $DW_JOB_STRIPED/out; touch {p}/running\n\
         [ -n \"$SLURM_RESTART_COUNT\" ] || sleep 600\n",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_until("the job runs", || pfs.join("running").exists());
    let id = job.id.to_string();
    let requeued = site.on("head", &["scontrol", "requeue", &id]);
    assert!(requeued.status.success(), "{}", requeued.stderr);
    job.wait_until("the first output", || read(&pfs.join("out")) == "run\n");
    // Slurm would wait for two minutes; a start in the second in which the first run's credential was revoked is
    // refused by slurmd.
    std::thread::sleep(Duration::from_secs(2));
    job.wait_until("its second run", || {
        site.on("head", &["scontrol", "update", &format!("JobId={id}"), "StartTime=now"]);
        read(&pfs.join("out")) == "run 1\n"
    });
    job.wait_success();
}

/// In setup, data_in and pre_run, each held by a service that is stopped and goes on after the cancel.
pub fn before_the_job(site: &Site) {
    for hurry in [&[][..], &["--hurry"]] {
        let pfs = site.pfs(ADA, "cancel-early");
        let input = pfs.join("input");
        fs::create_dir(&input).expect("ours");
        (0..2000).for_each(|n| fs::write(input.join(format!("f{n}")), "x").expect("ours"));
        own(&input, ADA);

        let stopped = site.node("n1").stop();
        let job = site.submit(ADA, &pfs, &waiting(&pfs, "-N 1"));
        job.wait_buffer("staging-in");
        job.cancel(hurry);
        drop(stopped);
        job.wait_end();

        let staging = waiting(&pfs, "-N 1").replace(
            "#DW stage_out",
            &format!(
                "#DW stage_in type=directory source={} destination=$DW_JOB_STRIPED/in\n#DW stage_out",
                input.display()
            ),
        );
        let job = site.submit(ADA, &pfs, &staging);
        let id = job.id.to_string();
        job.wait_until("a stage worker works", || !site.processes("forebay-stage", &id).is_empty());
        job.cancel(hurry);
        job.wait_end();

        let stopped = site.node("n4").stop();
        let job = site.submit(ADA, &pfs, &waiting(&pfs, "-w n4"));
        job.wait_buffer("pre-run");
        job.cancel(hurry);
        drop(stopped);
        job.wait_end();
        assert!(!pfs.join("running").exists() && !pfs.join("out").exists());
    }
}

/// `scancel` does nothing to a stage-out; `scancel --hurry` ends it and gives the data up.
pub fn stage_out(site: &Site) {
    let pfs = site.pfs(ADA, "cancel-stage-out");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=64MiB\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/d destination={p}/d\n\
         mkdir $DW_JOB_STRIPED/d; cd $DW_JOB_STRIPED/d; for n in $(seq 1500); do echo $n > $n; done\n",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    let id = job.id.to_string();
    // Held, so that it cannot end first.
    let hold = || site.processes("forebay-stage", &id).iter().map(Process::stop).collect::<Vec<_>>();
    let mut stopped = Vec::new();
    job.wait_until("a stage worker works", || {
        stopped = hold();
        !stopped.is_empty()
    });
    job.wait_buffer("staging-out");
    let mut status = serde_json::Value::Null;
    job.wait_until("the stage is under way", || {
        status = serde_json::from_str(&site.forebay(&["status", "--json"]).stdout).expect("JSON");
        let is_active = status["sessions"][0]["stages"][0]["state"] == "active";
        if !is_active {
            // It was held before it could say that it works.
            stopped.clear();
            std::thread::sleep(Duration::from_millis(2));
            stopped = hold();
        }
        is_active
    });
    let session = &status["sessions"][0];
    assert_eq!((&session["token"], &session["busy"]), (&id.into(), &"data_out".into()), "{session}");
    assert!(session["bytes_dirty"].is_u64() && session["bytes_left"].is_u64(), "{session}");
    job.cancel(&[]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(job.field("BurstBufferState"), "staging-out");
    job.cancel(&["--hurry"]);
    drop(stopped);
    job.wait_end();
}

/// A job that cannot write its output where it is to go; it stays in its stage-out and says why.
fn failing<'a>(site: &'a Site, pfs: &Path) -> (Job<'a>, PathBuf) {
    let target = pfs.join("target");
    fs::create_dir_all(&target).expect("ours");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={}/out\n\
         echo precious > $DW_JOB_STRIPED/out\n",
        target.display()
    );
    let job = site.submit(ADA, pfs, &script);
    job.wait_shown(&["Permission denied", "staging-out"]);
    (job, target)
}

/// The data is kept, and an operator can retry when the cause is gone.
pub fn failed_stage_out(site: &Site) {
    let pfs = site.pfs(ADA, "no-room");
    let (job, target) = failing(site, &pfs);
    let number = site.dwstat("sessions");
    let line =
        number.lines().find(|line| line.contains(&format!(" {} ", job.id))).expect("the session is kept");
    let number = line.split_whitespace().next().expect("a table").to_owned();
    own(&target, ADA);
    let retried = site.dwcli(&["stage", "out", "--session", &number]);
    assert!(retried.status.success(), "{}{}", retried.stdout, retried.stderr);
    assert_eq!(read(&target.join("out")), "precious\n");
    job.cancel(&["--hurry"]);
    job.wait_end();
}

/// Teardown without hurry, as after a crash of slurmctld that lost the job: what is not staged out is set aside, shown
/// to its owner, and waits until somebody stages it out or removes it.
pub fn quarantined(site: &Site) {
    let pfs = ["aside-retried", "aside-removed"].map(|name| site.pfs(ADA, name));
    let [retried, removed] = [0, 1].map(|n| failing(site, &pfs[n]));
    let aside = |job: &Job<'_>| format!("{}-kept-1", job.id);
    for (job, _) in [&retried, &removed] {
        let outcome = site.shim(&["--function", "teardown", "--token", &job.id.to_string()]);
        assert!(outcome.status.success(), "{}", outcome.stdout);
        // Nodes report what they hold once a second.
        let mut status = String::new();
        wait_until(Duration::from_secs(20), || {
            status = site.on("head/ada", &["forebay", "status"]).stdout;
            status.contains("4 KiB not staged out")
        });
        for word in [&format!("buffer {}", aside(job)), "Permission denied", "fault", "4 KiB not staged out"]
        {
            assert!(status.contains(word), "`{word}` is not in:\n{status}");
        }
        assert!(
            status.contains(&format!("`forebay stage retry {0}` or `forebay rm {0}`", aside(job))),
            "{status}"
        );
    }
    let stranger = site.on("head/grace", &["forebay", "status"]).stdout;
    assert!(stranger.contains("no buffers"), "{stranger}");
    let stolen = site.on("head/grace", &["forebay", "rm", &aside(&removed.0)]);
    assert!(!stolen.status.success() && stolen.stderr.contains("token not found"), "{}", stolen.stderr);

    let again = site.on("head/ada", &["forebay", "stage", "retry", &aside(&retried.0)]);
    assert!(again.status.code() == Some(74) && again.stdout.contains("Permission denied"), "{again:?}");
    own(&retried.1, ADA);
    let again = site.on("head/ada", &["forebay", "stage", "retry", &aside(&retried.0)]);
    assert!(again.status.success(), "{}", again.stderr);
    assert_eq!(read(&retried.1.join("out")), "precious\n");
    discard(site, &aside(&removed.0));
    assert!(!removed.1.join("out").exists());
    for (job, _) in [retried, removed] {
        job.cancel(&["--hurry"]);
        job.wait_end();
    }
}

/// Gives up a session that owes data: only where its user says so.
fn discard(site: &Site, token: &str) {
    let unasked = site.on("head/ada", &["forebay", "rm", token]);
    assert!(!unasked.status.success() && unasked.stderr.contains("--discard"), "{}", unasked.stderr);
    let gone = site.on("head/ada", &["forebay", "rm", token, "--discard"]);
    assert!(gone.status.success(), "{}", gone.stderr);
}
