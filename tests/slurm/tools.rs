//! `dwstat` and `dwcli` beside a job that runs.

use crate::site::{ADA, Site};

/// The lines that public scripts have, in a job on a compute node: `dwstat` reaches control over the network there.
pub fn pipelines(site: &Site) {
    let pfs = site.pfs(ADA, "dwstat");
    let script = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=48MiB\n\
         sessID=$(dwstat sessions | grep $SLURM_JOBID | awk '{print $1}')\n\
         instID=$(dwstat instances | grep $sessID | awk '{print $1}')\n\
         dwstat instances | grep $sessID | awk '{print $5}'\n\
         dwstat fragments | grep $instID | wc -l\n\
         set -- $(dwstat -b); echo ${10}\n\
         scontrol show dwstat configurations | grep -c 'conf *state *inst *type *activs'\n\
         echo ${#sessID} ${#instID}\n";
    let job = site.submit(ADA, &pfs, script);
    job.wait_success();
    assert_eq!(job.output(), "2\n2\n16777216\n1\n9 9\n", "the pipelines");

    let relayed = site.on("head/grace", &["scontrol", "show", "dwstat", "nodes"]).stdout;
    assert!(relayed.contains("n4") && relayed.contains("online"), "{relayed}");
    assert_headers(site);

    // Slurm counts what users have, so they get buffers from it alone; operators can make them.
    let create = ["create", "instance", "--label", "hand", "--capacity", "16MiB"];
    let refused = site.on("head/grace", &[&["dwcli"], &create[..]].concat());
    assert!(!refused.status.success() && refused.stderr.contains("#BB lines"), "{}", refused.stderr);
    let created = site.dwcli(&[&create[..], &["--owner", "2002", "--group", "2002"]].concat());
    assert!(created.status.success(), "{}", created.stderr);
    let other = site.on("head/ada", &["dwstat", "sessions"]).stdout;
    assert!(!other.contains("hand"), "another user sees it:\n{other}");
    let own =
        site.on("head/grace", &["bash", "-c", "dwcli ls instances | grep hand | awk '{print $1}'"]).stdout;
    let refused = site.on("head/ada", &["dwcli", "rm", "instance", "--id", own.trim()]);
    assert!(!refused.status.success(), "another user removed it");
    let removed = site.on("head/grace", &["dwcli", "rm", "instance", "--id", own.trim()]);
    assert!(removed.status.success(), "{}", removed.stderr);

    let drained = site.dwcli(&["update", "node", "--name", "n4", "--drain", "--reason", "test"]);
    assert!(drained.status.success(), "{}", drained.stderr);
    let line = site.dwstat("nodes").lines().find(|line| line.contains("n4")).map(str::to_owned);
    let resumed = site.dwcli(&["update", "node", "--name", "n4", "--no-drain"]);
    assert!(resumed.status.success(), "{}", resumed.stderr);
    assert!(line.is_some_and(|line| line.contains("drain")), "n4 does not show its drain");
}

/// What Slurm's own test35.5 looks for, with nothing there but what no job has.
#[track_caller]
fn assert_headers(site: &Site) {
    for (what, begin) in [
        ("pools", "pool units quantity free gran"),
        ("nodes", "node pool online drain gran capacity insts activs"),
        ("activations", "no activations"),
    ] {
        let text = site.on("head/grace", &["scontrol", "show", "dwstat", what]).stdout;
        let words: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words.join(" "), begin, "{what}");
    }
}

/// `/metrics` of control and of nodes of each role, while a job runs: `promtool` finds nothing wrong with them.
pub fn metrics(site: &Site) {
    let pfs = site.pfs(ADA, "metrics");
    let script = format!(
        "#!/bin/bash\n#SBATCH -w n3\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
         for i in $(seq 1200); do [ -e {}/go ] && break; sleep 0.1; done\n",
        pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_buffer("running");
    for (daemon, lines) in [
        (
            "head",
            &[
                "forebay_pool_bytes{pool=\"wlm_pool\"} 1073741824.0",
                "forebay_sessions{phase=\"mounted\"} 1.0",
            ][..],
        ),
        (
            "n1",
            &["forebay_fragment_capacity_bytes{node=\"n1\",instance=\"i", "forebay_mounts{node=\"n1\"} 0.0"],
        ),
        ("n3", &["forebay_mounts{node=\"n3\"} 1.0"]),
    ] {
        let ask = format!(
            "set -o pipefail; curl -fsS http://{daemon}:7401/metrics | tee /run/metrics | promtool check metrics"
        );
        let checked = site.on("head", &["bash", "-c", &ask]);
        let text = site.on("head", &["cat", "/run/metrics"]).stdout;
        assert!(checked.status.success(), "{daemon}: {}{}\n{text}", checked.stdout, checked.stderr);
        for line in lines {
            assert!(text.contains(line), "{daemon}: no {line} in:\n{text}");
        }
    }
    std::fs::write(pfs.join("go"), "").expect("ours");
    job.wait_success();
    let watched = site.on("head/ada", &["timeout", "2", "forebay", "status", "--watch", "--json"]).stdout;
    assert!(watched.lines().count() >= 2, "{watched}");
}
