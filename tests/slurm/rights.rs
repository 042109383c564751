//! What a user may not do: copy in what he cannot read, and reach into another user's buffer.

use std::fs;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use client::{Client, ConnectError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wire::data::Credential;
use wire::data::hello::HelloError;
use wire::data::hello::Key;
use wire::node::{MountSpec, NamespaceTarget};

use crate::job::Job;
use crate::site::{ADA, GRACE, Site, User};

/// Staging runs as the job's user and not as root: a file of root's stays where it is.
pub fn unreadable_source(site: &Site) {
    let pfs = site.pfs(ADA, "secret");
    let secret = pfs.join("shadow");
    fs::write(&secret, "root:hash\n").expect("ours");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_in type=file source={} destination=$DW_JOB_STRIPED/shadow\ncat $DW_JOB_STRIPED/shadow\n",
        secret.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_shown(&["data_in", secret.to_str().expect("a plain name"), "Permission denied"]);
    job.cancel(&[]);
    job.wait_end();
    assert_eq!(job.output(), "");
}

/// Two users on one compute node: neither the tree, nor a key, nor the wire protocol leads from one buffer to the
/// other.
pub fn other_instances(site: &Site) {
    let (graces, grace_folder) = hold(site, GRACE);
    let (adas, ada_folder) = hold(site, ADA);
    let tree = format!("{}/{}", site.mount_root().display(), graces.id);
    let looked = site.on("n3/ada", &["bash", "-c", &format!("cat {tree}/striped/out; ls {tree}/striped")]);
    assert!(looked.stdout.is_empty() && looked.stderr.contains("Permission denied"), "{}", looked.stderr);
    for node in ["n1", "n3"] {
        let state = site.state_of(node).display().to_string();
        let readable = site.on(&format!("{node}/ada"), &["find", &state, "-type", "f", "-readable"]);
        assert_eq!(readable.stdout, "", "ada can read this on {node}");
    }

    let [stolen, own] = [&graces, &adas].map(|job| target_of(site, job));
    assert!(connect(site, &stolen).is_ok(), "the right key does not open its buffer: the rest shows nothing");
    let guessed = Key::from_hex(&"0".repeat(64)).map(Credential::member);
    for credential in [own.credential.clone(), guessed] {
        let forged = NamespaceTarget { credential, ..stolen.clone() };
        let refused = connect(site, &forged);
        assert!(
            matches!(refused, Err(ConnectError::Node { source: HelloError::Refused(_), .. })),
            "another key opens the buffer: {:?}",
            refused.map(|_| ())
        );
    }
    for folder in [grace_folder, ada_folder] {
        fs::write(folder.join("go"), "").expect("ours");
    }
    graces.wait_success();
    adas.wait_success();
}

/// A job on n3 that runs until there is a file `go`.
fn hold(site: &Site, user: User) -> (Job<'_>, PathBuf) {
    let pfs = site.pfs(user, "rights");
    let script = format!(
        "#!/bin/bash\n#SBATCH -w n3\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
         echo secret > $DW_JOB_STRIPED/out; touch {p}/running\n\
         for i in $(seq 1200); do [ -e {p}/go ] && break; sleep 0.1; done\n",
        p = pfs.display()
    );
    let job = site.submit(user, &pfs, &script);
    job.wait_until("the job runs", || pfs.join("running").exists());
    (job, pfs)
}

/// What the mount of a job on n3 knows of its buffer, the key with it.
fn target_of(site: &Site, job: &Job<'_>) -> NamespaceTarget {
    let folder = fs::read_dir(site.state_of("n3").join("mounts")).expect("n3 has mounts").flatten();
    let own = |path: &Path| {
        let spec: MountSpec = serde_json::from_slice(&fs::read(path.join("spec.json")).ok()?).ok()?;
        spec.mountpoint.starts_with(site.mount_root().join(job.id.to_string())).then_some(spec.target)
    };
    folder.filter_map(|entry| own(&entry.path())).next().expect("the job's mount")
}

/// Connects as a program on n3 would: a thread of ours goes into its network.
fn connect(site: &Site, target: &NamespaceTarget) -> Result<(), ConnectError> {
    let network = File::open(format!("/proc/{}/ns/net", site.first_process("n3"))).expect("n3 lives");
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
            Client::connect(target).map(drop)
        });
        tried.join().expect("the thread does not panic")
    })
}
