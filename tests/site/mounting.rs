//! A mount of a site and its end, and stages, as control would ask for them.

use std::path::Path;

use serde_json::{Value, json};
use wire::data::credential::{Capability, Credential, Identity, User};
use wire::data::hello::Key;

use super::{HANGS_AFTER, KEY, Site};
use crate::processes::wait_until;

impl Site {
    #[track_caller]
    pub(super) fn mount(&self, n: usize) {
        let credential = credential(Identity::Kernel);
        let target = json!({
            "instance": "i1", "namespace": 0, "credential": credential, "layout": self.layout(), "home": 0,
            "nodes": self.addresses(), "grace_ms": self.plan.grace_ms
        });
        let spec = json!({
            "id": "m", "mountpoint": self.mountpoint(n), "exclusive": self.plan.mounts == 1, "target": target
        });
        self.compute[n].call("PUT", "/v1/mounts/m", Some(&spec));
    }

    /// The mount of compute node `n` ends as that of a job does.
    #[track_caller]
    pub fn unmount(&self, n: usize) {
        self.compute[n].call("DELETE", "/v1/mounts/m", None);
    }

    /// Stages everything out to the folder `to` by the first storage node, which ends with this.
    #[track_caller]
    pub fn stage_out(&self, id: &str, to: &Path) -> Value {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let user = User { uid, groups: vec![gid] };
        let target = json!({
            "instance": "i1", "namespace": 0, "credential": credential(Identity::User(user)), "layout": self.layout(),
            "home": 0, "nodes": self.addresses(), "grace_ms": self.plan.grace_ms
        });
        let spec = json!({
            "id": id, "direction": "out", "kind": "directory", "pfs_path": to, "buffer_path": "",
            "buffer_name": "$DW_JOB_STRIPED", "source": "$DW_JOB_STRIPED", "destination": to, "target": target,
            "owner": { "uid": uid, "gid": gid }
        });
        let path = format!("/v1/stages/{id}");
        self.storage[0].call("PUT", &path, Some(&spec));
        let mut status = Value::Null;
        let ended = wait_until(HANGS_AFTER, || {
            status = self.storage[0].call("GET", &path, None);
            ["complete", "failed"].iter().any(|state| status["state"] == *state)
        });
        assert!(ended, "the stage does not end: {status}");
        status
    }
}

fn credential(identity: Identity) -> Credential {
    let capability = Capability { identity, namespace: 0, expires_s: None };
    Credential::derive(&Key::from_hex(KEY).expect("it is one"), capability)
}
