//! A session as people see it: what the database says, made fresh with what the nodes said last.

use std::collections::BTreeSet;

use model::Token;
use model::phase::{Direction, Function, StageState};
use rusqlite::Transaction;
use wire::advice;
use wire::control::{
    ActivationStatus, ApiError, InstanceStatus, PersistentStatus, Script, SessionStatus, StageStatus,
};
use wire::node::{CopyStatus, MirrorStatus, PartTrouble};

use crate::app::App;
use crate::lifecycle::mounting::mount_id;
use crate::parts;
use crate::rights::Rights;
use crate::site::{NodeView, Site};
use crate::state::activations::{self, Activation};
use crate::state::instances::{self, Instance};
use crate::state::sessions::{self, Session};
use crate::state::transfers::{self, Transfer};
use crate::state::{self, registrations, timings};
use crate::views::{held_at_most, seen_mount, used_bytes};

/// As many stages on demand as a status lists.
const ON_DEMAND_SHOWN: u32 = 1000;

/// The session of a token, as one with these rights sees it.
///
/// # Errors
/// `no_such_session`.
pub(crate) async fn of_token<S: Site>(
    app: &App<S>,
    token: &Token,
    rights: Rights,
) -> Result<SessionStatus, ApiError> {
    of(app, app.session(token).await?, rights).await
}

/// How a session stands. Of stages on demand an owner sees his own; whoever has no right to it sees that a shared
/// buffer is there, and how it is.
///
/// # Errors
/// The database's.
pub(crate) async fn of<S: Site>(
    app: &App<S>,
    session: Session,
    rights: Rights,
) -> Result<SessionStatus, ApiError> {
    let busy = app.running(&session.token);
    let owner = session.owner.uid;
    let rows = {
        let _turn = app.user_queues.wait(rights).await;
        app.database.transact(move |tx| Rows::read(tx, session.clone(), rights)).await?
    };
    let status = rows.describe(busy, &app.nodes());
    Ok(if rights.cover(owner) { status } else { as_others_see_it(status) })
}

/// Without what its owner and its users do, and where they keep their files.
fn as_others_see_it(status: SessionStatus) -> SessionStatus {
    SessionStatus {
        script: Script::default(),
        failed: None,
        activations: Vec::new(),
        timings_ms: Vec::new(),
        kept: None,
        notes: Vec::new(),
        uses: Vec::new(),
        quarantined: None,
        bytes_dirty: 0,
        ..status
    }
}

/// Everything that the database has on one session.
struct Rows {
    session: Session,
    instance: Option<Instance>,
    /// The instances that stage-outs may still have to save something of.
    owing: Vec<Instance>,
    activations: Vec<Activation>,
    /// Those that are shown.
    transfers: Vec<Transfer>,
    timings_ms: Vec<(Function, u64)>,
    /// The persistent buffers that it uses.
    uses: Vec<Token>,
    /// The sessions that use it, if it is a persistent buffer.
    users: Vec<Token>,
}

impl Rows {
    /// Reads the rest.
    ///
    /// # Errors
    /// The database's.
    fn read(tx: &Transaction<'_>, session: Session, rights: Rights) -> state::Result<Rows> {
        let token = &session.token;
        let mut all = transfers::of_script(tx, token)?;
        let mut shown = if rights.cover(session.owner.uid) { all.clone() } else { Vec::new() };
        let on_demand = transfers::shown(tx, token, None, ON_DEMAND_SHOWN)?;
        match rights {
            Rights::Operator | Rights::Manager => shown.extend(on_demand.iter().cloned()),
            Rights::Owner(uid) => shown.extend(transfers::shown(tx, token, Some(uid), ON_DEMAND_SHOWN)?),
        }
        all.extend(on_demand);
        let is_written = session.was_mounted || session.persistent;
        let owing = owing(is_written, &all).into_iter().map(|holder| instances::find(tx, holder));
        Ok(Rows {
            instance: instances::find(tx, token)?,
            owing: owing.filter_map(state::Result::transpose).collect::<state::Result<Vec<Instance>>>()?,
            activations: activations::of(tx, token)?,
            transfers: shown,
            timings_ms: timings::of(tx, token)?,
            uses: registrations::buffers_of(tx, token)?,
            users: users(tx, token, rights)?,
            session,
        })
    }

    /// For the reply.
    fn describe(self, busy: Option<Function>, nodes: &[NodeView]) -> SessionStatus {
        let token = self.session.token;
        let handle = &self.session.handle;
        let activations =
            self.activations.into_iter().map(|activation| describe(handle, activation, nodes)).collect();
        let stages: Vec<StageStatus> = self.transfers.iter().map(Transfer::status).collect();
        let mut instance = self.instance.map(|instance| describe_instance(instance, &token, nodes));
        if let Some(leaving) = instance.as_mut().filter(|_| busy == Some(Function::Teardown)) {
            // Nobody misses what is being destroyed.
            (leaving.intact, leaving.unserved) = (None, Vec::new());
        }
        SessionStatus {
            owner: self.session.owner,
            script: self.session.script,
            created_unix: self.session.created_unix,
            phase: self.session.phase,
            busy,
            failed: self.session.failed,
            bytes_dirty: self.owing.iter().map(|instance| held_at_most(instance, nodes)).sum(),
            bytes_left: bytes_left(&stages),
            instance,
            activations,
            stages,
            timings_ms: self.timings_ms,
            kept: self.session.kept,
            notes: self.session.notes,
            caller: self.session.caller,
            persistent: (self.session.persistent)
                .then_some(PersistentStatus { shared: self.session.shared, users: self.users }),
            uses: self.uses,
            quarantined: self.session.quarantined,
            token,
        }
    }
}

/// The sessions that use a persistent buffer, as far as they may be seen.
fn users(tx: &Transaction<'_>, token: &Token, rights: Rights) -> state::Result<Vec<Token>> {
    let mut seen = Vec::new();
    for user in registrations::users_of(tx, token)? {
        if sessions::find(tx, &user)?.is_some_and(|session| rights.cover(session.owner.uid)) {
            seen.push(user);
        }
    }
    Ok(seen)
}

/// The sessions that have the buffers of which stage-outs may still have to save something: at most all that these may
/// hold, until each stage-out is complete. What they have verified is not taken off, as it need not be in what the
/// buffer holds: a file is verified with its holes, once by each stage-out that has it, and may be removed or changed
/// since. A job that never ran wrote nothing.
fn owing(is_written: bool, transfers: &[Transfer]) -> BTreeSet<&Token> {
    let is_owed = |transfer: &&Transfer| {
        is_written && transfer.direction == Direction::Out && transfer.state != StageState::Complete
    };
    transfers.iter().filter(is_owed).map(|transfer| transfer.buffer.holder(&transfer.token)).collect()
}

fn bytes_left(stages: &[StageStatus]) -> u64 {
    let active = stages.iter().filter(|stage| stage.state == StageState::Active);
    active.map(|stage| stage.progress.bytes_total.saturating_sub(stage.progress.bytes_done)).sum()
}

fn describe(handle: &str, activation: Activation, nodes: &[NodeView]) -> ActivationStatus {
    let id = mount_id(handle, &activation);
    let seen = if activation.mounted { seen_mount(nodes, &activation.node, &id) } else { None };
    ActivationStatus {
        // Until the node's next report, what it replied to the request counts.
        mounted: seen.map_or(activation.mounted, |mount| mount.mounted),
        interruptions: seen.map_or(activation.interruptions, |mount| mount.interruptions),
        node: activation.node,
        access_mode: activation.access_mode,
        mountpoint: activation.mountpoint,
        persistent: activation.buffer.persistent().cloned(),
    }
}

fn describe_instance(instance: Instance, token: &Token, nodes: &[NodeView]) -> InstanceStatus {
    let told = |parts: Vec<PartTrouble>| parts.into_iter().map(|part| part.of_buffer(token)).collect();
    InstanceStatus {
        used_bytes: used_bytes(&instance, nodes),
        intact: parts::is_intact(&instance, nodes),
        unserved: told(parts::unserved(&instance, nodes)),
        copies: copies(&instance, nodes),
        mirrors: mirrors(&instance, token, nodes),
        damaged: told(parts::damaged(&instance, nodes)),
        lost_writes: told(parts::lost_writes(&instance, nodes)),
        given_up: parts::given_up(&instance, nodes),
        finish_key: parts::is_key_unfinished(&instance, nodes).then(|| format!("forebay rekey {token}")),
        redundancy: instance.behaviour.redundancy,
        allocated_bytes: instance.allocated_bytes(),
        pool: instance.pool,
        id: instance.id,
        requested_bytes: instance.requested_bytes,
        capacity_bytes: instance.capacity_bytes,
        nodes: instance.nodes,
        volume: instance.volume,
        access_modes: instance.access_modes,
    }
}

/// The second copies of an instance's metadata, as its nodes said last.
fn copies(instance: &Instance, nodes: &[NodeView]) -> Vec<CopyStatus> {
    let views = nodes.iter().filter(|view| instance.nodes.contains(&view.name));
    let fragments = views.filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    let of_instance = fragments.filter(|fragment| fragment.instance == instance.id);
    of_instance.flat_map(|fragment| fragment.copies.iter().cloned()).collect()
}

/// The mirrors of an instance's objects, likewise.
fn mirrors(instance: &Instance, token: &Token, nodes: &[NodeView]) -> Vec<MirrorStatus> {
    // A node that was lost is none of them any more.
    let views = nodes.iter().filter(|view| instance.nodes.contains(&view.name));
    let views = views.filter_map(|view| Some((view, view.health.as_ref()?)));
    let mut mirrors = Vec::new();
    for (view, health) in views {
        let of_instance = health.fragments.iter().filter(|fragment| fragment.instance == instance.id);
        for mirror in of_instance.flat_map(|fragment| &fragment.mirrors) {
            // What a node said before it fell silent says nothing of now.
            let silent = (!view.online).then(|| format!("node {} does not answer", view.name));
            let whole = mirror.whole && silent.is_none();
            let error = silent.or_else(|| mirror.error.as_ref().map(|why| advice::of_buffer(why, token)));
            let making_ms = mirror.making_ms.filter(|_| view.online);
            mirrors.push(MirrorStatus { whole, error, making_ms, ..mirror.clone() });
        }
    }
    mirrors
}

#[cfg(test)]
mod tests {
    use model::buffer::BufferRef;
    use model::phase::StageKind;

    use super::*;

    fn out(state: StageState, bytes_verified: u64) -> Transfer {
        let transfer = Transfer::out(StageKind::Directory, "tmp", "/pfs/tmp");
        let mut report = transfer.untouched();
        report.progress.bytes_verified = bytes_verified;
        Transfer { state, report: Some(report), ..transfer }
    }

    #[test]
    fn what_was_verified_never_hides_what_is_owed() {
        // A file of 1 GiB that is one hole was verified, or one that the job has removed since, or one file twice; what
        // failed is still in the buffer.
        let stages = [out(StageState::Complete, 1 << 30), out(StageState::Failed, 0)];
        let own = BTreeSet::from([&stages[0].token]);
        assert_eq!(owing(true, &stages), own);
        assert_eq!(owing(true, &[out(StageState::Active, 1 << 30)]), own);
        assert_eq!(owing(true, &stages[..1]), BTreeSet::new());
        assert_eq!(owing(false, &stages), BTreeSet::new());
    }

    #[test]
    fn what_a_job_is_to_stage_out_of_a_persistent_buffer_is_owed_by_that() {
        let buffer = BufferRef::Persistent(Token::literal("data"));
        let stages = [Transfer { buffer, ..out(StageState::Pending, 0) }];
        assert_eq!(owing(true, &stages), BTreeSet::from([&Token::literal("data")]));
        // On demand, from a buffer that is nobody's job's.
        let stages = [Transfer { token: Token::literal("data"), ..out(StageState::Failed, 0) }];
        assert_eq!(owing(true, &stages), BTreeSet::from([&Token::literal("data")]));
    }
}
