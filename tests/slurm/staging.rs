//! Stages that all storage nodes of a buffer work on.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::site::{ADA, Site, own};

/// Small files, and bytes of the large one: more than one node is asked to copy by itself.
const FILES: u32 = 600;
const LARGE: usize = 96 << 20;

/// A large file and many small ones pass through a buffer on two nodes; the node that does not coordinate has copied a
/// part, with the user's rights.
pub fn on_every_storage_node(site: &Site) {
    let pfs = site.pfs(ADA, "every-node");
    let input = pfs.join("in");
    fs::create_dir(&input).expect("ours");
    (0..FILES).for_each(|n| fs::write(input.join(n.to_string()), format!("{n}\n")).expect("ours"));
    let large: Vec<u8> =
        (0..LARGE as u32 / 4).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    // A stage of its own: who copies small files is not there when the large one is divided.
    fs::write(pfs.join("large"), &large).expect("ours");
    own(&pfs, ADA);
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=160MiB\n\
         #DW stage_in type=file source={p}/large destination=$DW_JOB_STRIPED/d/large\n\
         #DW stage_in type=directory source={p}/in destination=$DW_JOB_STRIPED/d\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/d destination={p}/back\n\
         while [ ! -e {p}/go ]; do sleep 0.1; done\n",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_state("RUNNING");
    let status = site.forebay(&["status", "--json"]).stdout;
    fs::write(pfs.join("go"), "").expect("ours");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let sessions = status["sessions"].as_array().expect("sessions");
    let session = sessions.iter().find(|session| session["token"] == job.id.to_string().as_str());
    let stage = &session.expect("the job's session")["stages"][0];
    let helper = &stage["notes"]["helpers"][0];
    assert!(helper[1].as_u64().is_some_and(|bytes| bytes > 16 << 20), "{stage:#}");

    job.wait_success();
    assert!(fs::read(pfs.join("back/large")).expect("staged out") == large, "the large file differs");
    for n in 0..FILES {
        let back = pfs.join(format!("back/{n}"));
        assert_eq!(fs::read_to_string(&back).expect("staged out"), format!("{n}\n"));
        assert_eq!(fs::metadata(&back).expect("staged out").uid(), ADA.id);
    }
    assert_eq!(fs::read_dir(pfs.join("back")).expect("staged out").count(), FILES as usize + 1);
}
