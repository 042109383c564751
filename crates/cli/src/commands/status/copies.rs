//! What `forebay status` says of the second copies of a buffer's metadata.

use model::NodeName;
use wire::control::{InstanceStatus, NodeStatus};
use wire::node::CopyStatus;

use crate::render;

/// On how many nodes the metadata of a buffer is; `None` where no storage node has any.
pub fn line(instance: &InstanceStatus, nodes: &[NodeStatus]) -> Option<String> {
    let says = match (instance.nodes.as_slice(), instance.copies.as_slice()) {
        ([], _) => return None,
        ([_], _) => "one copy, as the buffer is on one node".to_owned(),
        ([home, ..], []) => format!("not known yet how many copies there are: node {home} has not said"),
        (_, copies) => of_copies(copies, nodes),
    };
    Some(format!("  metadata: {says}"))
}

fn of_copies(copies: &[CopyStatus], nodes: &[NodeStatus]) -> String {
    let away = |name: &NodeName| nodes.iter().any(|node| node.name == *name && !node.online);
    if let Some(silent) = copies.iter().find(|copy| away(&copy.home)) {
        let last = if silent.whole { "two copies" } else { "one copy only" };
        return format!("node {} does not answer; when it last did: {last}", silent.home);
    }
    let lacking: Vec<&CopyStatus> = copies.iter().filter(|copy| !copy.whole).collect();
    let Some(worst) = lacking.iter().max_by_key(|copy| (copy.alone, copy.behind_bytes)) else {
        return match copies.iter().find(|copy| away(&copy.node)) {
            Some(copy) => format!("two copies, but node {} with the second does not answer now", copy.node),
            None => "two copies".to_owned(),
        };
    };
    let of = match copies.len() {
        1 => String::new(),
        all => format!("of {} of {all} namespaces ", lacking.len()),
    };
    let (home, node, behind) = (&worst.home, &worst.node, render::bytes(worst.behind_bytes));
    let why = match &worst.error {
        Some(error) => format!("; that on node {node} is {behind} behind: {error}"),
        None if away(node) => format!("; node {node} with the other does not answer, and is {behind} behind"),
        None if worst.alone => {
            format!("; node {node} with the other does not answer in time, and is {behind} behind")
        }
        None => return format!("{of}the second copy is being made on node {node}, {behind} to go"),
    };
    format!("{of}one copy only, on node {home}{why}")
}

#[cfg(test)]
mod tests {
    use model::NodeName;

    use super::*;
    use crate::fixtures;

    fn copy(namespace: u32, whole: bool, behind_bytes: u64) -> CopyStatus {
        CopyStatus {
            namespace,
            home: NodeName::literal("n0"),
            node: NodeName::literal("n1"),
            whole,
            confirmed: whole,
            alone: false,
            accepted: false,
            behind_bytes,
            error: None,
            doubt: None,
        }
    }

    fn says(copies: &[CopyStatus], online: [bool; 2]) -> String {
        let instance = InstanceStatus {
            nodes: vec![NodeName::literal("n0"), NodeName::literal("n1")],
            copies: copies.to_vec(),
            ..fixtures::session().instance.unwrap()
        };
        let node = |(name, online): (&str, bool)| NodeStatus {
            name: NodeName::unchecked(name),
            online,
            ..NodeStatus::default()
        };
        let nodes: Vec<NodeStatus> = ["n0", "n1"].into_iter().zip(online).map(node).collect();
        line(&instance, &nodes).unwrap()
    }

    const ONLINE: [bool; 2] = [true, true];

    #[test]
    fn one_copy_only_is_said_with_the_node_and_how_far_it_is_behind() {
        assert_eq!(says(&[copy(0, true, 0), copy(16, true, 40)], ONLINE), "  metadata: two copies");
        let refused = CopyStatus { error: Some("connection refused".into()), ..copy(0, false, 3 << 20) };
        assert_eq!(
            says(std::slice::from_ref(&refused), ONLINE),
            "  metadata: one copy only, on node n0; that on node n1 is 3 MiB behind: connection refused"
        );
        let of_two = says(&[copy(0, true, 0), refused], ONLINE);
        assert!(of_two.starts_with("  metadata: of 1 of 2 namespaces one copy only"), "{of_two}");
        let hung = CopyStatus { alone: true, ..copy(0, false, 508) };
        assert_eq!(
            says(&[hung], ONLINE),
            "  metadata: one copy only, on node n0; node n1 with the other does not answer in time, and is 508 bytes behind"
        );
    }

    #[test]
    fn a_buffer_on_one_node_and_one_whose_node_has_said_nothing_are_told_apart() {
        let instance = fixtures::session().instance.unwrap();
        assert_eq!(line(&instance, &[]).unwrap(), "  metadata: one copy, as the buffer is on one node");
        assert!(says(&[], ONLINE).contains("not known yet"), "{}", says(&[], ONLINE));
        let of_job = InstanceStatus { nodes: vec![], ..instance };
        assert_eq!(line(&of_job, &[]), None);
    }

    #[test]
    fn a_copy_that_is_being_made_is_not_one_that_cannot_be_had() {
        let made = says(&[copy(0, false, 3 << 20)], ONLINE);
        assert_eq!(made, "  metadata: the second copy is being made on node n1, 3 MiB to go");
        let away = says(&[copy(0, false, 3 << 20)], [true, false]);
        assert!(away.contains("one copy only, on node n0; node n1 with the other does not answer"), "{away}");
    }

    #[test]
    fn what_a_node_said_before_it_fell_silent_is_not_said_of_now() {
        let home = says(&[copy(0, true, 0)], [false, true]);
        assert_eq!(home, "  metadata: node n0 does not answer; when it last did: two copies");
        let keeper = says(&[copy(0, true, 0)], [true, false]);
        assert!(keeper.contains("node n1 with the second does not answer now"), "{keeper}");
    }
}
