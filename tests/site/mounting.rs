//! A mount of a site, as control would ask for it.

use serde_json::json;
use wire::data::credential::{Capability, Credential, Identity};
use wire::data::hello::Key;

use super::{KEY, Site};

impl Site {
    #[track_caller]
    pub(super) fn mount(&self, n: usize) {
        let capability = Capability { identity: Identity::Kernel, namespace: 0, expires_s: None };
        let credential = Credential::derive(&Key::from_hex(KEY).expect("it is one"), capability);
        let target = json!({
            "instance": "i1", "namespace": 0, "credential": credential, "layout": self.layout(), "home": 0,
            "nodes": self.addresses(), "grace_ms": self.plan.grace_ms
        });
        let spec = json!({
            "id": "m", "mountpoint": self.mountpoint(n), "exclusive": self.plan.mounts == 1, "target": target
        });
        self.compute[n].call("PUT", "/v1/mounts/m", Some(&spec));
    }
}
