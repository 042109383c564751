//! Whoever asks a node for something may hang up, be repeated, or be told of a failure: what the node replies is true.

use std::fs;
use std::time::Duration;

use tests::cluster::Cluster;
use tests::processes::wait_until;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Who unmounts is told that it is done only when it is: a job's `data_out` begins then, and its buffer may go.
#[test]
fn an_unmount_that_failed_fails_again_until_the_buffer_is_unmounted() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    cluster.forebay(&["mount", text, "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    fs::write(path.join("file"), "kept").unwrap();
    let mount = cluster.process("forebay-mount", "");
    // The node's next life cannot read what this one has kept of the mount.
    cluster.process("forebay-node", "").kill();
    let folder = fs::read_dir(cluster.state.join("nodes")).unwrap().next().unwrap().unwrap().path();
    let mounts = fs::read_dir(folder.join("mounts")).unwrap();
    let kept = mounts.flatten().next().unwrap().path().join("kept.json");
    let good = fs::read(&kept).unwrap();
    fs::write(&kept, "{").unwrap();
    for _ in 0..2 {
        let refused = cluster.forebay(&["umount", text]);
        assert!(!refused.status.success() && refused.stderr.contains("kept.json"), "{refused:?}");
        assert!(mount.is_alive() && cluster.mounts().contains(&path));
    }
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "kept");
    fs::write(&kept, good).unwrap();
    cluster.forebay(&["umount", text]).expect_success();
    assert!(!cluster.mounts().contains(&path) && wait_until(SOON, || !mount.is_alive()));
}

/// A volume needs mounts.
mod root_only {
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;

    use tests::local_node::{LocalNode, USER};

    use super::*;

    /// Has the node begin to make the volume of job 7, and hangs up before it is made.
    fn begin_and_hang_up(site: &LocalNode) {
        let body = format!(
            r#"{{"id":"7","owner":{{"uid":{USER},"gid":{USER}}},"user":"ada","capacity_bytes":null,"drain":null}}"#
        );
        let mut caller = UnixStream::connect(site.root().join("state/node.sock")).unwrap();
        let head = format!(
            "PUT /v1/locals/7 HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        caller.write_all((head + &body).as_bytes()).unwrap();
        let folder = site.root().join("state/locals/7");
        assert!(wait_until(SOON, || folder.exists()), "{}", site.log());
        caller.set_nonblocking(true).unwrap();
        let answered = caller.read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(
            answered,
            Err(ErrorKind::WouldBlock),
            "the volume was made before its caller could hang up"
        );
    }

    #[test]
    fn a_volume_whose_caller_hung_up_is_there_for_who_asks_again_and_goes_when_it_is_released() {
        let site = LocalNode::start("/var/tmp", "256MiB");
        begin_and_hang_up(&site);
        let volume = site.create("7");
        fs::write(volume.join("file"), "usable").unwrap();
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
    }

    #[test]
    fn a_volume_that_is_released_while_it_is_being_made_does_not_stay() {
        let site = LocalNode::start("/var/tmp", "256MiB");
        begin_and_hang_up(&site);
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
        // Its user's next job has a place for its own.
        site.create("8");
    }
}
