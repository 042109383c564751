//! A session as people see it: what the database says, made fresh with what the nodes said last.

use model::phase::Function;
use rusqlite::Transaction;
use wire::control::{ActivationStatus, InstanceStatus, SessionStatus, StageStatus};
use wire::node::MountStatus;

use crate::lifecycle::mounts::mount_id;
use crate::site::NodeView;
use crate::state::activations::{self, Activation};
use crate::state::instances::{self, Instance};
use crate::state::sessions::Session;
use crate::state::stages::{self, Stage};
use crate::state::{self, timings};

/// Everything that the database has on one session.
pub struct Rows {
    session: Session,
    instance: Option<Instance>,
    activations: Vec<Activation>,
    stages: Vec<Stage>,
    timings_ms: Vec<(Function, u64)>,
}

impl Rows {
    /// Reads the rest.
    ///
    /// # Errors
    /// The database's.
    pub fn read(tx: &Transaction<'_>, session: Session) -> state::Result<Rows> {
        let token = session.token.as_str();
        Ok(Rows {
            instance: instances::find(tx, token)?,
            activations: activations::of(tx, token)?,
            stages: stages::of(tx, token)?,
            timings_ms: timings::of(tx, token)?,
            session,
        })
    }

    /// For the reply.
    pub fn describe(self, busy: Option<Function>, nodes: &[NodeView]) -> SessionStatus {
        let token = self.session.token;
        let activations =
            self.activations.into_iter().map(|activation| describe(&token, activation, nodes)).collect();
        let stages: Vec<StageStatus> = self.stages.iter().map(|stage| stage.status(&token)).collect();
        SessionStatus {
            owner: self.session.owner,
            script: self.session.script,
            created_unix: self.session.created_unix,
            phase: self.session.phase,
            busy,
            failed: self.session.failed,
            instance: self.instance.map(|instance| describe_instance(instance, nodes)),
            activations,
            stages,
            timings_ms: self.timings_ms,
            kept: self.session.kept,
            notes: self.session.notes,
            caller: wire::control::CLI.to_owned(),
            persistent: None,
            uses: Vec::new(),
            quarantined: None,
            bytes_dirty: 0,
            bytes_left: 0,
            token,
        }
    }
}

fn describe(token: &str, activation: Activation, nodes: &[NodeView]) -> ActivationStatus {
    let id = mount_id(token, activation.access_mode);
    let seen = if activation.mounted { seen_mount(nodes, &activation.node, &id) } else { None };
    ActivationStatus {
        // Until the node's next report, what it replied to the request counts.
        mounted: seen.map_or(activation.mounted, |mount| mount.mounted),
        interruptions: seen.map_or(activation.interruptions, |mount| mount.interruptions),
        node: activation.node,
        access_mode: activation.access_mode,
        mountpoint: activation.mountpoint,
        persistent: None,
    }
}

fn seen_mount<'a>(nodes: &'a [NodeView], node: &str, id: &str) -> Option<&'a MountStatus> {
    let health = nodes.iter().find(|view| view.name == node)?.health.as_ref()?;
    health.mounts.iter().find(|mount| mount.id == id)
}

fn describe_instance(instance: Instance, nodes: &[NodeView]) -> InstanceStatus {
    InstanceStatus {
        used_bytes: used_bytes(&instance.id, nodes),
        id: instance.id,
        requested_bytes: instance.requested_bytes,
        capacity_bytes: instance.capacity_bytes,
        nodes: instance.nodes,
        volume: instance.volume,
        access_modes: instance.access_modes,
        pool: crate::script::POOL.to_owned(),
        intact: true,
    }
}

/// Bytes in use in an instance, as its nodes said last.
pub fn used_bytes(instance: &str, nodes: &[NodeView]) -> u64 {
    let fragments = nodes.iter().filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    fragments.filter(|fragment| fragment.instance == instance).map(|fragment| fragment.used_bytes).sum()
}
