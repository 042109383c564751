//! What `forebay status` says of buffers whose files are kept on two nodes.

use model::NodeName;
use model::phase::Redundancy;
use wire::control::{GivenUp, InstanceStatus};
use wire::node::{MirrorStatus, PartTrouble};

use crate::render;

/// Lines on the bytes of a buffer's files: none where they are on the job's own nodes, and no damage is known.
pub fn lines(instance: &InstanceStatus) -> Vec<String> {
    let trouble = |of: &str, part: &PartTrouble| {
        [format!("  {of} node {}: {}", part.node, part.why), format!("    {}", part.advice)]
    };
    let damaged = instance.damaged.iter().flat_map(|part| trouble("data DAMAGED on", part));
    let lost = instance.lost_writes.iter().flat_map(|part| trouble("writes LOST, as is known to", part));
    let mut lines: Vec<String> = damaged.chain(lost).collect();
    if lines.is_empty() || instance.mirrors.iter().any(|mirror| !mirror.whole) {
        lines.extend(of_copies(instance));
    }
    lines.extend(instance.mirrors.iter().filter(|mirror| mirror.repaired > 0).map(repaired));
    lines.extend(instance.given_up.iter().flat_map(|kept| given_up(kept, &instance.nodes)));
    lines
}

fn of_copies(instance: &InstanceStatus) -> Vec<String> {
    if instance.redundancy == Redundancy::None {
        let copy = (!instance.nodes.is_empty()).then(|| "  data: one copy".to_owned());
        return copy.into_iter().collect();
    }
    let taken = render::bytes(instance.allocated_bytes);
    let lacking: Vec<&MirrorStatus> = instance.mirrors.iter().filter(|mirror| !mirror.whole).collect();
    if lacking.is_empty() && instance.mirrors.len() >= instance.nodes.len() {
        return vec![format!("  data: two copies, which take {taken} of the pool")];
    }
    if lacking.is_empty() {
        return vec!["  data: not known yet whether there are two copies".to_owned()];
    }
    lacking.into_iter().map(risk).collect()
}

/// What a node still has that was given up for lost, and is back: one of this machine is made again at its own place.
fn given_up(kept: &GivenUp, nodes: &[NodeName]) -> [String; 2] {
    let (node, path) = (&kept.node, kept.path.display());
    if nodes.contains(node) {
        return [
            format!(
                "  the part on node {node} was made again since: {path} is an older one, which is not used"
            ),
            format!(
                "    put the folder back that took its place; if that is lost, too, move this one away, and `forebay \
                 node lost {node}` makes the part again"
            ),
        ];
    }
    [
        format!("  node {node} was given up, and is back: what it had is kept in {path}"),
        "    it is discarded when all parts are whole elsewhere, or with the buffer; to discard it now, stop the \
         node's forebay-node, remove that folder, and start it again"
            .to_owned(),
    ]
}

/// Damage that is repaired is no harm to the buffer, but to the trust in a disk.
fn repaired(mirror: &MirrorStatus) -> String {
    let places = render::counted(mirror.repaired, "damaged place", "damaged places");
    let node = &mirror.node;
    format!(
        "  data repaired on node {node}: {places} since it was started, from the other copy; look at its disk"
    )
}

fn risk(mirror: &MirrorStatus) -> String {
    if let Some(so_far) = mirror.making_ms {
        let (node, on) = (&mirror.node, &mirror.mirror);
        let tenths = so_far / 100;
        return format!(
            "  data: the second copy of what node {node} has is being made on node {on} (since {}.{} s)",
            tenths / 10,
            tenths % 10
        );
    }
    let why = mirror.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let behind = match mirror.behind {
        None => "all objects are to be compared".to_owned(),
        Some(0) => {
            return format!(
                "  data AT RISK: node {} and its mirror, node {}, do not reach each other; nothing is known that the \
                 mirror lacks so far{why}",
                mirror.node, mirror.mirror
            );
        }
        Some(count) => format!("{} to be copied", render::counted(count, "object is", "objects are")),
    };
    format!(
        "  data AT RISK: what node {} has is not all on its mirror, node {}; {behind}{why}",
        mirror.node, mirror.mirror
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::session;
    use model::FragmentIndex;

    fn instance(mirrors: Vec<MirrorStatus>) -> InstanceStatus {
        InstanceStatus {
            redundancy: Redundancy::Mirror,
            allocated_bytes: 2 << 30,
            mirrors,
            ..session().instance.unwrap()
        }
    }

    #[test]
    fn what_was_repaired_is_told_beside_how_many_copies_there_are() {
        let told = lines(&instance(vec![MirrorStatus { repaired: 2, ..mirror(true) }, mirror(true)]));
        let repaired = "  data repaired on node n0: 2 damaged places since it was started, from the other copy; \
                        look at its disk";
        assert_eq!(told, ["  data: two copies, which take 2 GiB of the pool", repaired]);
    }

    fn mirror(whole: bool) -> MirrorStatus {
        let error = (!whole).then(|| "connection refused".to_owned());
        let (node, mirror) = (NodeName::literal("n0"), NodeName::literal("n1"));
        MirrorStatus {
            namespace: 0,
            node,
            mirror,
            whole,
            named: whole,
            behind: Some(3),
            error,
            doubt: None,
            repaired: 0,
            making_ms: None,
        }
    }

    #[test]
    fn a_mirror_that_is_only_being_made_is_no_risk_and_one_that_is_late_is() {
        let made = MirrorStatus { making_ms: Some(320), ..mirror(false) };
        let told = lines(&instance(vec![made, mirror(true)]));
        assert_eq!(
            told,
            ["  data: the second copy of what node n0 has is being made on node n1 (since 0.3 s)"]
        );
        assert!(lines(&instance(vec![mirror(false), mirror(true)]))[0].contains("AT RISK"));
    }

    #[test]
    fn a_mirror_that_is_down_and_lacks_nothing_is_not_said_to_lack_something() {
        let told = lines(&instance(vec![MirrorStatus { behind: Some(0), ..mirror(false) }]));
        let expected = "  data AT RISK: node n0 and its mirror, node n1, do not reach each other; nothing is known \
                        that the mirror lacks so far: connection refused";
        assert_eq!(told, [expected]);
    }

    #[test]
    fn what_a_node_keeps_that_was_given_up_is_said_with_how_to_be_rid_of_it() {
        let kept = vec![GivenUp { node: NodeName::literal("n9"), path: "/state/fragments/i1".into() }];
        let told = lines(&InstanceStatus { given_up: kept, ..instance(vec![mirror(true)]) });
        assert_eq!(
            told[1],
            "  node n9 was given up, and is back: what it had is kept in /state/fragments/i1"
        );
        assert!(told[2].contains("or with the buffer") && told[2].contains("remove that folder"), "{told:?}");
    }

    #[test]
    fn nobody_says_two_copies_of_what_is_damaged() {
        let (why, advice) = ("2 of its objects are damaged".into(), "write them anew".into());
        let damaged =
            vec![PartTrouble { part: FragmentIndex(1), node: NodeName::literal("n1"), why, advice }];
        let whole = instance(vec![mirror(true), mirror(true)]);
        assert_eq!(
            lines(&InstanceStatus { damaged, ..whole }),
            ["  data DAMAGED on node n1: 2 of its objects are damaged", "    write them anew"]
        );
    }

    #[test]
    fn what_was_lost_and_no_program_was_told_of_is_said_with_what_to_do() {
        let integrity = wire::node::IntegrityStatus { lost_writes: 3, ..Default::default() };
        let (why, advice) = integrity.told_of_losses().unwrap();
        let lost_writes =
            vec![PartTrouble { part: FragmentIndex(0), node: NodeName::literal("n0"), why, advice }];
        let told = lines(&InstanceStatus { lost_writes, ..instance(vec![mirror(true), mirror(true)]) });
        assert!(told[0].starts_with("  writes LOST, as is known to node n0: 3 losses"), "{told:?}");
        assert!(told[1].contains("fsck"), "{told:?}");
    }

    #[test]
    fn what_is_at_risk_is_said_with_both_nodes_and_why() {
        assert_eq!(lines(&session().instance.unwrap()), ["  data: one copy"]);
        assert_eq!(
            lines(&instance(vec![mirror(true)])),
            ["  data: two copies, which take 2 GiB of the pool"]
        );
        assert_eq!(
            lines(&instance(vec![mirror(false)])),
            [
                "  data AT RISK: what node n0 has is not all on its mirror, node n1; 3 objects are to be copied: \
              connection refused"
            ]
        );
        assert!(lines(&instance(Vec::new()))[0].contains("not known yet"));
    }
}
