//! The machine of control loses its power: what control has acted on is still known.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::control::TeardownReply;

use crate::hosts::{Cluster, hosts, nothing};

/// A disk of its own for what a service keeps: XFS, which loses with its power what is not synced.
pub struct Disk {
    image: PathBuf,
    folder: PathBuf,
}

impl Disk {
    /// Moves what is in `folder` onto it.
    pub fn under(it: &Cluster, folder: PathBuf) -> Disk {
        let disk = Disk { image: it.path("disk"), folder };
        File::create_new(&disk.image).and_then(|file| file.set_len(512 << 20)).unwrap();
        run(Command::new("mkfs.xfs").arg("-q").arg(&disk.image));
        let aside = disk.folder.with_file_name("aside");
        fs::rename(&disk.folder, &aside).unwrap();
        fs::create_dir(&disk.folder).unwrap();
        disk.attach();
        run(Command::new("cp").arg("-a").arg(aside.join(".")).arg(&disk.folder));
        run(Command::new("sync").arg("-f").arg(&disk.folder));
        disk
    }

    fn attach(&self) {
        run(Command::new("mount").args(["-o", "loop,nouuid"]).arg(&self.image).arg(&self.folder));
    }

    /// The power fails, and comes back.
    pub fn lose_power(&self) {
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.folder));
        run(Command::new("umount").arg(&self.folder));
        self.attach();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg::<&Path>(&self.folder).status();
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_is_owed_is_still_owed_after_a_power_loss_of_controls_machine() {
    let Some(mut it) = Cluster::start().await else { return };
    it.kill("control");
    let disk = Disk::under(&it, it.path("control"));
    it.start_control();
    let nodes_are_online =
        |status: &wire::control::Status| status.nodes.iter().filter(|node| node.online).count() == 2;
    it.until("both nodes are online", nodes_are_online).await;
    let directives = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=64MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/result destination={}\n",
        it.pfs("result").display()
    );
    it.call("101", "setup", serde_json::to_value(it.setup(&directives)).unwrap()).await.unwrap();
    it.call("101", "data_in", nothing()).await.unwrap();
    // Older than the loss by far, as far as the disk is concerned; what follows is not.
    run(Command::new("sync").arg("-f").arg(it.path("control")));
    it.call("101", "pre_run", hosts(&["n1"])).await.unwrap();
    it.kill("control");
    disk.lose_power();
    fs::write(it.mount_root("n1").join("101/striped/result"), "what the job has worked for").unwrap();

    it.start_control();
    it.until("both nodes are online", nodes_are_online).await;
    let ended = it.call("101", "post_run", nothing()).await;
    let copied = it.call("101", "data_out", nothing()).await;
    let torn: Result<TeardownReply, _> =
        it.post("/v1/sessions/101/teardown", &serde_json::json!({"hurry": false})).await;
    let there = fs::read_to_string(it.pfs("result")).unwrap_or_default();
    assert!(there == "what the job has worked for", "{ended:?}\n{copied:?}\n{torn:?}");
    torn.unwrap();
    it.kill("control");
}
