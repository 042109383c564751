//! Everything that is allocated and mounted, as numbered objects: one reading of the database, made fresh with what the
//! nodes said last.

use model::buffer::BufferRef;
use model::phase::{AccessMode, Function, Phase};
use model::{NodeName, Token};
use rusqlite::Transaction;
use wire::control::{
    ActivationObject, ConfigurationObject, FragmentObject, Goal, InstanceObject, ObjectState, Objects,
    RegistrationObject, SessionObject,
};

use crate::lifecycle::mounting::mount_id;
use crate::parts::is_intact;
use crate::rights::Rights;
use crate::site::NodeView;
use crate::state::instances::{self, Instance};
use crate::state::numbers::{self, Numbers};
use crate::state::sessions::{self, Session};
use crate::state::{self, activations, registrations};
use crate::views::{seen_mount, used_bytes};

/// What is added to the numbers that a kind of object is counted with. Scripts look for ids with `grep`: no id is found
/// in a date, in a job's number (Slurm's end below 2^26), or in the id of another kind.
mod first {
    pub(super) const SESSION: u64 = 100_000_000;
    pub(super) const INSTANCE: u64 = 200_000_000;
    pub(super) const CONFIGURATION: u64 = 300_000_000;
    pub(super) const REGISTRATION: u64 = 400_000_000;
    pub(super) const ACTIVATION: u64 = 500_000_000;
    pub(super) const FRAGMENT: u64 = 600_000_000;
}

/// One session with all that is its.
struct Whole {
    session: Session,
    /// Whether all of it is seen, or only that a shared buffer is there.
    is_own: bool,
    state: ObjectState,
    instance: Option<Instance>,
    numbers: Numbers,
}

/// Every object that `rights` cover, and of shared buffers of others what is allocated; pools and nodes are left out.
/// `busy` tells which function of a token runs.
///
/// # Errors
/// The database's.
pub(crate) fn read(
    tx: &Transaction<'_>,
    views: &[NodeView],
    rights: Rights,
    busy: impl Fn(&Token) -> Option<Function>,
) -> state::Result<Objects> {
    let mut wholes = Vec::new();
    for session in sessions::living(tx)? {
        let is_own = rights.cover(session.owner.uid);
        if is_own || session.shared {
            let state = state_of(&session, busy(&session.token));
            let instance = instances::find(tx, &session.token)?;
            let numbers = numbers::of(tx, &session.token)?;
            wholes.push(Whole { session, is_own, state, instance, numbers });
        }
    }
    let mut objects = Objects::default();
    for whole in &wholes {
        objects.sessions.push(session_object(tx, whole)?);
        if let Some(instance) = &whole.instance {
            objects.instances.push(instance_object(whole, instance, views));
            objects.fragments.extend(fragment_objects(whole, instance, views));
        }
        if whole.is_own {
            activation_objects(tx, whole, &wholes, views, &mut objects)?;
            registration_objects(whole, &wholes, &mut objects);
        }
    }
    for whole in &wholes {
        let configurations = configuration_objects(whole, &objects.activations);
        objects.configurations.extend(configurations);
    }
    Ok(objects)
}

fn state_of(session: &Session, busy: Option<Function>) -> ObjectState {
    let leaving = busy == Some(Function::Teardown);
    ObjectState {
        goal: if leaving { Goal::Destroy } else { Goal::Create },
        actualized: session.phase != Phase::Registered && !leaving,
        transitioning: matches!(busy, Some(Function::Setup | Function::Teardown)),
        ..ObjectState::WELL
    }
}

fn session_object(tx: &Transaction<'_>, whole: &Whole) -> state::Result<SessionObject> {
    let session = &whole.session;
    let mut hosts: Vec<NodeName> = Vec::new();
    if whole.is_own {
        hosts.extend(activations::of(tx, &session.token)?.into_iter().map(|activation| activation.node));
        hosts.sort();
        hosts.dedup();
    }
    Ok(SessionObject {
        id: first::SESSION + session.number,
        state: whole.state,
        token: session.token.clone(),
        creator: session.caller.clone(),
        owner: session.owner.uid,
        created_unix: session.created_unix,
        hosts,
        quarantined: session.quarantined.is_some(),
        persistent: session.persistent,
    })
}

fn instance_object(whole: &Whole, instance: &Instance, views: &[NodeView]) -> InstanceObject {
    let intact = is_intact(instance, views);
    InstanceObject {
        id: number_of(instance),
        state: ObjectState { fuse_blown: intact == Some(false) && whole.state.actualized, ..whole.state },
        session: first::SESSION + whole.session.number,
        capacity_bytes: instance.capacity_bytes,
        used_bytes: used_bytes(instance, views),
        nodes: u32::try_from(instance.nodes.len()).unwrap_or(u32::MAX),
        created_unix: whole.session.created_unix,
        intact,
        label: whole.session.token.to_string(),
        public: whole.session.shared,
        configurations: u32::try_from(instance.access_modes.len()).unwrap_or(u32::MAX),
        pool: instance.pool.clone(),
    }
}

/// Of `i3` the third id.
fn number_of(instance: &Instance) -> u64 {
    let number: u64 = instance.id.as_str().trim_start_matches('i').parse().unwrap_or_default();
    first::INSTANCE.saturating_add(number)
}

fn fragment_objects<'a>(
    whole: &'a Whole,
    instance: &'a Instance,
    views: &'a [NodeView],
) -> impl Iterator<Item = FragmentObject> + 'a {
    let made = instance.made.iter().copied().chain(std::iter::repeat(false));
    let places = instance.nodes.iter().zip(made);
    whole.numbers.fragments.iter().zip(places).map(move |(number, (node, made))| {
        let one = Instance { nodes: vec![node.clone()], made: vec![made], ..instance.clone() };
        let lost = whole.state.actualized && is_intact(&one, views) == Some(false);
        FragmentObject {
            id: first::FRAGMENT + *number,
            state: ObjectState { fuse_blown: lost, ..whole.state },
            instance: number_of(instance),
            capacity_bytes: instance.capacity_bytes / (instance.nodes.len() as u64).max(1),
            granularity_bytes: instance.granularity_bytes,
            node: node.clone(),
        }
    })
}

/// The number of a namespace of the session, or of the persistent buffer that it uses.
fn configuration(wholes: &[Whole], whole: &Whole, buffer: &BufferRef, mode: AccessMode) -> Option<u64> {
    let owner = match buffer {
        BufferRef::Own => Some(whole),
        BufferRef::Persistent(name) => wholes.iter().find(|other| other.session.token == *name),
    };
    let (_, number) = owner?.numbers.namespaces.iter().find(|(known, _)| *known == mode)?;
    Some(first::CONFIGURATION + *number)
}

fn activation_objects(
    tx: &Transaction<'_>,
    whole: &Whole,
    wholes: &[Whole],
    views: &[NodeView],
    objects: &mut Objects,
) -> state::Result<()> {
    let all = activations::of(tx, &whole.session.token)?;
    for (number, activation) in whole.numbers.activations.iter().zip(all) {
        let Some(configuration) = configuration(wholes, whole, &activation.buffer, activation.access_mode)
        else {
            continue;
        };
        if !activation.mounted {
            continue;
        }
        let id = mount_id(&whole.session.handle, &activation);
        let mounted = seen_mount(views, &activation.node, &id).is_none_or(|mount| mount.mounted);
        objects.activations.push(ActivationObject {
            id: first::ACTIVATION + *number,
            state: ObjectState { actualized: mounted, transitioning: !mounted, ..ObjectState::WELL },
            session: first::SESSION + whole.session.number,
            configuration,
            node: activation.node,
            mountpoint: activation.mountpoint,
        });
    }
    Ok(())
}

fn registration_objects(whole: &Whole, wholes: &[Whole], objects: &mut Objects) {
    for registrations::Registration { number, buffer, access_mode } in &whole.numbers.registrations {
        if let Some(configuration) = configuration(wholes, whole, buffer, *access_mode) {
            objects.registrations.push(RegistrationObject {
                id: first::REGISTRATION + *number,
                state: whole.state,
                session: first::SESSION + whole.session.number,
                configuration,
                wait: true,
            });
        }
    }
}

fn configuration_objects(whole: &Whole, activations: &[ActivationObject]) -> Vec<ConfigurationObject> {
    let Some(instance) = &whole.instance else { return Vec::new() };
    let id_of = |number: u64| first::CONFIGURATION + number;
    let object = |(mode, number): &(AccessMode, u64)| ConfigurationObject {
        id: id_of(*number),
        state: whole.state,
        instance: number_of(instance),
        kind: "scratch".to_owned(),
        access_mode: *mode,
        activations: u32::try_from(activations.iter().filter(|a| a.configuration == id_of(*number)).count())
            .unwrap_or(u32::MAX),
    };
    whole.numbers.namespaces.iter().map(object).collect()
}
