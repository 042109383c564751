//! What `forebay status` says of the second copies of a buffer's metadata.

use wire::node::CopyStatus;

use crate::render;

/// Whether the metadata of a buffer is on two nodes; `None` where it has one node only.
pub fn line(copies: &[CopyStatus]) -> Option<String> {
    let lacking: Vec<&CopyStatus> = copies.iter().filter(|copy| !copy.whole).collect();
    let Some(worst) = lacking.iter().max_by_key(|copy| copy.behind_bytes) else {
        return copies.first().map(|_| "  metadata: two copies".to_owned());
    };
    let of = match copies.len() {
        1 => String::new(),
        all => format!(" of {} of {all} namespaces", lacking.len()),
    };
    let why = worst.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let (home, node, behind) = (&worst.home, &worst.node, render::bytes(worst.behind_bytes));
    Some(format!(
        "  metadata{of}: one copy only, on node {home}; that on node {node} is {behind} behind{why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(namespace: u32, whole: bool, behind_bytes: u64) -> CopyStatus {
        let error = (!whole).then(|| "connection refused".to_owned());
        CopyStatus { namespace, home: "n0".into(), node: "n1".into(), whole, behind_bytes, error }
    }

    #[test]
    fn one_copy_only_is_said_with_the_node_and_how_far_it_is_behind() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[copy(0, true, 0), copy(16, true, 40)]).unwrap(), "  metadata: two copies");
        assert_eq!(
            line(&[copy(0, false, 3 << 20)]).unwrap(),
            "  metadata: one copy only, on node n0; that on node n1 is 3 MiB behind: connection refused"
        );
        let of_two = line(&[copy(0, true, 0), copy(16, false, 1 << 20)]).unwrap();
        assert!(of_two.starts_with("  metadata of 1 of 2 namespaces: one copy only"), "{of_two}");
    }
}
