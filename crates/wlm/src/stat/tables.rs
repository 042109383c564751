//! Which table has which columns. Their order is what old scripts count by: new columns only go last.

use std::time::{Duration, UNIX_EPOCH};

use model::phase::AccessMode;
use wire::control::Objects;

use super::What;
use super::table::{Table, Units};

/// Nothing here ends by itself.
const EXPIRATION: &str = "never";

/// The table of one kind of object.
pub(super) fn of(objects: &Objects, what: What, units: Units) -> Table {
    match what {
        What::Sessions => sessions(objects),
        What::Instances => instances(objects, units),
        What::Configurations => configurations(objects),
        What::Registrations => registrations(objects),
        What::Activations => activations(objects),
        What::Fragments => fragments(objects, units),
        What::Nodes => nodes(objects, units),
        What::Pools | What::Most | What::All => pools(objects, units),
    }
}

fn pools(objects: &Objects, units: Units) -> Table {
    let rows = objects.pools.iter().map(|pool| {
        let size = |grains: u64| units.size(grains.saturating_mul(pool.granularity_bytes));
        vec![pool.name.clone(), "bytes".into(), size(pool.quantity), size(pool.free), size(1)]
    });
    Table::new("pools", &["pool", "units", "quantity", "free", "gran"], rows)
}

fn sessions(objects: &Objects) -> Table {
    let rows = objects.sessions.iter().map(|session| {
        vec![
            session.id.to_string(),
            session.state.to_string(),
            session.token.to_string(),
            session.creator.clone(),
            session.owner.to_string(),
            time(session.created_unix),
            EXPIRATION.into(),
            session.hosts.len().to_string(),
        ]
    });
    let header = &["sess", "state", "token", "creator", "owner", "created", "expiration", "nodes"];
    Table::new("sessions", header, rows)
}

/// Whether an instance is served whole.
fn intact(known: Option<bool>) -> &'static str {
    match known {
        Some(true) => "intact",
        Some(false) => "broken",
        None => "unknown",
    }
}

fn instances(objects: &Objects, units: Units) -> Table {
    let rows = objects.instances.iter().map(|instance| {
        vec![
            instance.id.to_string(),
            instance.state.to_string(),
            instance.session.to_string(),
            units.size(instance.capacity_bytes),
            instance.nodes.to_string(),
            time(instance.created_unix),
            EXPIRATION.into(),
            intact(instance.intact).into(),
            instance.label.clone(),
            if instance.public { "public" } else { "private" }.into(),
            instance.configurations.to_string(),
        ]
    });
    let header = &[
        "inst",
        "state",
        "sess",
        "bytes",
        "nodes",
        "created",
        "expiration",
        "intact",
        "label",
        "public",
        "confs",
    ];
    Table::new("instances", header, rows)
}

fn configurations(objects: &Objects) -> Table {
    let rows = objects.configurations.iter().map(|configuration| {
        let access = match configuration.access_mode {
            AccessMode::Striped => "stripe",
            AccessMode::Private => "private",
        };
        vec![
            configuration.id.to_string(),
            configuration.state.to_string(),
            configuration.instance.to_string(),
            configuration.kind.clone(),
            configuration.activations.to_string(),
            access.into(),
        ]
    });
    // Older releases of DataWarp had no access_type, and Slurm's own test knows them only.
    let header = &["conf", "state", "inst", "type", "activs", "access_type"];
    Table::new("scratch, cache, swap configurations", header, rows)
}

fn registrations(objects: &Objects) -> Table {
    let rows = objects.registrations.iter().map(|registration| {
        vec![
            registration.id.to_string(),
            registration.state.to_string(),
            registration.session.to_string(),
            registration.configuration.to_string(),
            if registration.wait { "wait" } else { "no-wait" }.into(),
        ]
    });
    Table::new("registrations", &["reg", "state", "sess", "conf", "wait"], rows)
}

fn activations(objects: &Objects) -> Table {
    let rows = objects.activations.iter().map(|activation| {
        vec![
            activation.id.to_string(),
            activation.state.to_string(),
            activation.session.to_string(),
            activation.configuration.to_string(),
            activation.node.to_string(),
            activation.mountpoint.display().to_string(),
        ]
    });
    Table::new("activations", &["activ", "state", "sess", "conf", "node", "mount"], rows)
}

fn fragments(objects: &Objects, units: Units) -> Table {
    let rows = objects.fragments.iter().map(|fragment| {
        vec![
            fragment.id.to_string(),
            fragment.state.to_string(),
            fragment.instance.to_string(),
            units.size(fragment.capacity_bytes),
            units.size(fragment.granularity_bytes),
            fragment.node.to_string(),
        ]
    });
    Table::new("fragments", &["frag", "state", "inst", "capacity", "gran", "node"], rows)
}

fn nodes(objects: &Objects, units: Units) -> Table {
    let rows = objects.nodes.iter().map(|node| {
        let pool = objects.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
        vec![
            node.name.to_string(),
            node.pool.clone().unwrap_or_else(|| "-".into()),
            if node.online { "online" } else { "offline" }.into(),
            if node.drained.is_some() { "drain" } else { "fill" }.into(),
            pool.map_or_else(|| "-".into(), |pool| units.size(pool.granularity_bytes)),
            units.size(node.capacity_bytes),
            node.fragments.to_string(),
            node.activations.to_string(),
        ]
    });
    let header = &["node", "pool", "online", "drain", "gran", "capacity", "insts", "activs"];
    Table::new("nodes", header, rows)
}

/// In UTC, as `2016-11-04T04:01:44Z`.
fn time(unix: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix)).to_string()
}
