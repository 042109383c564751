//! One script with options of `sbatch` and `srun` that say where its results are and what it sees. Slurm and
//! `forebay run` make the same of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The script. It has to be submitted in the folder that is then looked at.
pub const SCRIPT: &str = include_str!("sbatch/options.sh");

/// Tasks of its array.
const TASKS: [u32; 2] = [3, 5];

/// Every file that it makes, with its text. Lines of ranks stand in any order.
fn expected(user: &str) -> BTreeMap<String, String> {
    let of_task = |task: u32| {
        let output = format!(
            "task {task} of 2: 3-5:2\nranks 2 2 2 2, processors 1\nnodes 1 1, level 3, BATCH\n\
             this is rank 0 0 0 of node 0\nonly rank 1\nkept\nown.0\nA=1 LEVEL=is not passed on mesh\n"
        );
        let file = |name: String, text: &str| (name, text.to_owned());
        [
            file(format!("out.mesh.{user}.00{task}.batch.0"), &output),
            file(format!("err.{task}.0"), "an error\n"),
            file(format!("kept.{task}"), &format!("kept by {task}\n")),
            file(format!("step.{task}.0.0.00"), "rank 0 of 2\n"),
            file(format!("step.{task}.0.1.01"), "rank 1 of 2\n"),
            file(format!("step.{task}.1"), "error\nerror\noutput\noutput\n"),
        ]
    };
    TASKS.into_iter().flat_map(of_task).collect()
}

/// What is in the folder beside `job.sh`.
fn found(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("the folder is ours").flatten();
    let texts = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).expect("the script writes text");
        // Slurm's srun says there that it waits for the step before.
        let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("srun: ")).collect();
        (name.clone(), if name.starts_with("step.") { sorted(&text) } else { text })
    });
    texts.filter(|(name, _)| name != "job.sh").collect()
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Whether both tasks have staged out: their last results are there.
pub fn is_staged_out(folder: &Path) -> bool {
    TASKS.iter().all(|task| folder.join(format!("kept.{task}")).exists())
}

/// The script's results are in `folder`, and nothing else; `user` submitted it.
#[track_caller]
pub fn assert_results(folder: &Path, user: &str) {
    let (found, expected) = (found(folder), expected(user));
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected));
    for (name, text) in expected {
        assert_eq!(found[&name], text, "{name}");
    }
}
