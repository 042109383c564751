//! Submissions that cannot work are refused by `sbatch`, with the reason.

use std::fs;

use crate::site::{ADA, Site};

/// What is wrong with it, the directives, and words of the reason.
const MALFORMED: [(&str, &str, &[&str]); 13] = [
    (
        "an unknown type",
        "#DW jobdw type=frobnicate access_mode=striped capacity=16MiB",
        &["frobnicate", "scratch"],
    ),
    (
        "an unknown access mode",
        "#DW jobdw type=scratch access_mode=stripped capacity=16MiB",
        &["stripped", "striped"],
    ),
    (
        "a space in the size",
        "#DW jobdw type=scratch access_mode=striped capacity=10 GiB",
        &["line 2", "10GiB without"],
    ),
    ("an unknown unit", "#DW jobdw type=scratch access_mode=striped capacity=10Gig", &["10Gig"]),
    (
        "a capacity in nodes",
        "#DW jobdw type=scratch access_mode=striped capacity=2nodes",
        &["8 EiB", "no other job", "as 10GiB"],
    ),
    ("more than the pool", "#DW jobdw type=scratch access_mode=striped capacity=100TiB", &["pool"]),
    (
        "an unknown option",
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB capcity=1",
        &["capcity"],
    ),
    ("no type", "#DW jobdw access_mode=striped capacity=16MiB", &["type="]),
    (
        "no destination",
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n#DW stage_in type=file source=/etc/hostname",
        &["line 3", "destination="],
    ),
    (
        "a relative path",
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_in type=file source=input destination=$DW_JOB_STRIPED/input",
        &["absolute"],
    ),
    (
        "a shell variable",
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/a destination=$HOME/a",
        &["$HOME"],
    ),
    (
        "a buffer that is not asked for",
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_in type=file source=/etc/hostname destination=$DW_JOB_PRIVATE/a",
        &["private"],
    ),
    ("swap", "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n#DW swap 1GiB", &["swap"]),
];

/// All of them; none runs without its buffer.
pub fn all(site: &Site) {
    let pfs = site.pfs(ADA, "refused");
    for (what, directives, words) in MALFORMED {
        let script = format!("#!/bin/bash\n{directives}\ntouch {}/ran\n", pfs.display());
        match site.try_submit(ADA, &pfs, &script, &[]) {
            Ok(job) => {
                job.cancel(&["--hurry"]);
                panic!("{what} was accepted:\n{directives}");
            }
            Err(text) => {
                for word in words {
                    assert!(text.contains(word), "{what}: `{word}` is not in:\n{text}");
                }
                let lines: Vec<_> =
                    text.lines().filter(|line| line.contains("burst_buffer/datawarp")).collect();
                assert_eq!(lines.len(), 1, "{what}: not one line:\n{text}");
            }
        }
    }
    // Slurm itself looks for the pool, and does not say what is wrong.
    let gold = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB pool=gold\n";
    let text = site.try_submit(ADA, &pfs, gold, &[]).err().expect("a pool that nobody has is refused");
    assert!(text.contains("Burst Buffer request invalid"), "{text}");
    assert!(!pfs.join("ran").exists());
    fs::remove_dir_all(&pfs).expect("ours");
}
