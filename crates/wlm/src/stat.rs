//! `dwstat`: tables of what is there, for people and for the `grep` and `awk` of their scripts: the columns and their
//! order are DataWarp's.

mod table;
mod tables;

use clap::{Parser, ValueEnum};
use wire::control::Objects;

pub use table::Units;

/// Show pools, sessions and what belongs to them.
#[derive(Debug, Parser)]
#[command(name = "dwstat", version)]
pub struct Arguments {
    /// Print sizes in bytes
    #[arg(short, long)]
    pub bytes: bool,
    /// What to show
    #[arg(value_enum, default_value = "pools")]
    pub what: What,
}

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Flash to allocate.
    Pools,
    /// Jobs and persistent buffers.
    Sessions,
    /// Allocations.
    Instances,
    /// Namespaces.
    Configurations,
    /// Which session uses which configuration.
    Registrations,
    /// Mounts.
    Activations,
    /// Parts of instances on nodes.
    Fragments,
    /// Nodes.
    Nodes,
    /// All but fragments and nodes.
    Most,
    /// Everything.
    All,
}

/// The tables that were asked for, as text.
pub fn show(objects: &Objects, what: What, units: Units) -> String {
    let many: &[What] = match what {
        What::Most => &MOST,
        What::All => &ALL,
        _ => &[],
    };
    if many.is_empty() {
        let table = tables::of(objects, what, units);
        return if table.is_empty() { format!("no {}\n", table.none) } else { table.to_string() };
    }
    let tables: Vec<_> = many.iter().map(|what| tables::of(objects, *what, units)).collect();
    let (empty, full): (Vec<_>, Vec<_>) = tables.into_iter().partition(table::Table::is_empty);
    let mut parts: Vec<String> = full.iter().map(ToString::to_string).collect();
    if !empty.is_empty() {
        let names: Vec<_> = empty.iter().map(|table| table.none).collect();
        parts.push(format!("did not find any {}\n", names.join(", ")));
    }
    parts.join("\n")
}

const MOST: [What; 6] = [
    What::Pools,
    What::Sessions,
    What::Instances,
    What::Configurations,
    What::Registrations,
    What::Activations,
];

const ALL: [What; 8] = [
    What::Pools,
    What::Nodes,
    What::Sessions,
    What::Instances,
    What::Configurations,
    What::Registrations,
    What::Activations,
    What::Fragments,
];

#[cfg(test)]
mod tests {

    use super::*;
    use model::phase::AccessMode;
    use model::{NodeName, Token};
    use wire::control::{
        ConfigurationObject, FragmentObject, InstanceObject, NodeRole, NodeStatus, ObjectState, PoolStatus,
        SessionObject,
    };

    fn objects() -> Objects {
        let state = ObjectState::WELL;
        Objects {
            pools: vec![PoolStatus {
                name: "wlm_pool".into(),
                granularity_bytes: 16 << 20,
                quantity: 64,
                free: 57,
            }],
            sessions: vec![SessionObject {
                id: 75,
                state,
                token: Token::literal("347"),
                creator: "SLURM".into(),
                owner: 1001,
                created_unix: 1_478_232_104,
                hosts: vec![NodeName::literal("n1"), NodeName::literal("n2")],
                quarantined: false,
                persistent: false,
            }],
            instances: vec![InstanceObject {
                id: 81,
                state,
                session: 75,
                capacity_bytes: 112 << 20,
                used_bytes: 0,
                nodes: 2,
                created_unix: 1_478_232_104,
                intact: Some(true),
                label: "347".into(),
                public: false,
                configurations: 1,
                pool: "wlm_pool".into(),
            }],
            configurations: vec![ConfigurationObject {
                id: 90,
                state,
                instance: 81,
                kind: "scratch".into(),
                access_mode: AccessMode::Striped,
                activations: 2,
            }],
            fragments: vec![FragmentObject {
                id: 99,
                state,
                instance: 81,
                capacity_bytes: 56 << 20,
                granularity_bytes: 16 << 20,
                node: NodeName::literal("n1"),
            }],
            nodes: vec![NodeStatus {
                name: NodeName::literal("n1"),
                online: true,
                roles: vec![NodeRole::Storage],
                pool: Some("wlm_pool".into()),
                capacity_bytes: 512 << 20,
                ..NodeStatus::default()
            }],
            ..Objects::default()
        }
    }

    /// `dwstat WHAT | grep PATTERN | awk '{print $COLUMN}'`
    fn grep_awk(what: What, pattern: &str, column: usize) -> String {
        let text = show(&objects(), what, Units::Human);
        let line = text.lines().find(|line| line.contains(pattern)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(column - 1).unwrap().to_owned()
    }

    /// The lines that many public scripts have (psana-nersc, DataElevator, Pegasus, PnetCDF, NERSC's own tests).
    #[test]
    fn the_pipelines_of_old_scripts_work() {
        let session = grep_awk(What::Sessions, "347", 1);
        assert_eq!(session, "75");
        let instance = grep_awk(What::Instances, &session, 1);
        assert_eq!(instance, "81");
        assert_eq!(grep_awk(What::Instances, &session, 5), "2");
        assert_eq!(grep_awk(What::Fragments, &instance, 4), "56MiB");
        assert_eq!(grep_awk(What::Nodes, "n1", 3), "online");
        let pools = show(&objects(), What::Pools, Units::Bytes);
        assert_eq!(pools.split_whitespace().nth(9), Some("16777216"));
        assert_eq!(pools.split_whitespace().nth(7), Some("1073741824"));
    }

    #[test]
    fn the_headers_are_datawarps() {
        let first = |what| {
            let text = show(&objects(), what, Units::Human);
            text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(first(What::Pools), "pool units quantity free gran");
        assert_eq!(first(What::Sessions), "sess state token creator owner created expiration nodes");
        assert_eq!(
            first(What::Instances),
            "inst state sess bytes nodes created expiration intact label public confs"
        );
        assert_eq!(first(What::Configurations), "conf state inst type activs access_type");
        assert_eq!(first(What::Fragments), "frag state inst capacity gran node");
    }

    #[test]
    fn what_is_not_there_is_said_in_a_sentence() {
        let none = |what| show(&Objects::default(), what, Units::Human);
        assert_eq!(none(What::Sessions), "no sessions\n");
        assert_eq!(none(What::Configurations), "no scratch, cache, swap configurations\n");
        assert!(
            show(&objects(), What::Most, Units::Human)
                .ends_with("\ndid not find any registrations, activations\n")
        );
    }

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
