//! Commands on several hosts whose buffers would be kept in one folder of a home that all hosts have.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tests::processes::wait_until;

use crate::site::{ADA, Site};

/// Tasks of an array on several nodes have one state folder, in the shared home: one has it, the others are told so
/// before their commands run, and nothing is lost of any.
pub fn one_folder(site: &Site) {
    let pfs = site.pfs(ADA, "folder");
    let text = format!(
        "#!/bin/bash\n#SBATCH -N1 --exclusive --array=1-3\nexec >{p}/$SLURM_ARRAY_TASK_ID.out 2>&1\n\
         forebay with --dir {p}/s --capacity 16MiB --out r:{p}/r$SLURM_ARRAY_TASK_ID -- \
         bash -c 'df --output=fstype $DW_JOB_STRIPED | tail -1 >${{DW_JOB_STRIPED}}r; sleep 15'\necho status $?\n",
        p = pfs.display()
    );
    site.submit(ADA, &pfs, &text).wait_end();
    let told = [1, 2, 3].map(|task| {
        let file = pfs.join(format!("{task}.out"));
        assert!(wait_until(Duration::from_secs(60), || read_if(&file).contains("status ")), "{task}");
        (task, read_if(&file))
    });
    for (task, said) in &told {
        let result = read_if(&pfs.join(format!("r{task}")));
        match said.contains("status 0\n") {
            true => assert_eq!(result.trim(), "fuse.forebay", "{told:?}"),
            false => {
                assert!(said.contains("is used elsewhere: ") && said.contains("status 69\n"), "{told:?}");
                assert!(said.contains("`--dir ANOTHER_FOLDER`") && result.is_empty(), "{told:?}");
            }
        }
    }
    assert_eq!(told.iter().filter(|(_, said)| said.contains("status 0\n")).count(), 1, "{told:?}");
}

fn read_if(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}
