//! The values of options: capacities, instance types and access modes.

use super::options::closest;
use super::{AccessModeRequest, Capacity, InstanceType, RequestedMode};
use crate::phase::{Coherence, Drain, Redundancy, StageKind};
use crate::size;

const TYPES: [(&str, InstanceType); 2] = [("scratch", InstanceType::Scratch), ("cache", InstanceType::Cache)];

const STAGE_TYPES: [(&str, StageKind); 4] = [
    ("file", StageKind::File),
    ("directory", StageKind::Directory),
    ("list", StageKind::List),
    ("any", StageKind::Any),
];

const MODES: [(&str, RequestedMode); 3] = [
    ("striped", RequestedMode::Striped),
    ("private", RequestedMode::Private),
    ("ldbalance", RequestedMode::Ldbalance),
];

const COHERENCES: [(&str, Coherence); 2] = [("posix", Coherence::Posix), ("commit", Coherence::Commit)];

const REDUNDANCIES: [(&str, Redundancy); 2] = [("none", Redundancy::None), ("mirror", Redundancy::Mirror)];

const DRAINS: [(&str, Drain); 1] = [("on-close", Drain::OnClose)];

/// A size, or a number of nodes such as `2nodes`; not 0.
pub(super) fn capacity(text: &str) -> Result<Capacity, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let nodes = matches!(unit.to_ascii_lowercase().as_str(), "n" | "node" | "nodes");
    let capacity = match number.parse() {
        Ok(number) if nodes => Capacity::Nodes(number),
        Err(_) if nodes && !number.is_empty() => {
            return Err(format!("`{text}` is more nodes than any cluster has; give a smaller number"));
        }
        _ => Capacity::Bytes(size::parse(text).map_err(|error| error.to_string())?),
    };
    match capacity {
        Capacity::Bytes(0) | Capacity::Nodes(0) => {
            Err(format!("size `{text}` is zero; give a size above zero, such as 10GiB"))
        }
        capacity => Ok(capacity),
    }
}

/// `scratch` or `cache`.
pub(super) fn instance_type(text: &str) -> Result<InstanceType, String> {
    one_of("type", text, &TYPES)
}

/// `posix` or `commit`.
pub(super) fn coherence(text: &str) -> Result<Coherence, String> {
    one_of("coherence", text, &COHERENCES)
}

/// `none` or `mirror`.
pub(super) fn redundancy(text: &str) -> Result<Redundancy, String> {
    one_of("redundancy", text, &REDUNDANCIES)
}

/// `on-close`.
pub(super) fn drain(text: &str) -> Result<Drain, String> {
    one_of("drain", text, &DRAINS)
}

/// `file`, `directory` or `list`.
pub(super) fn stage_type(text: &str) -> Result<StageKind, String> {
    one_of("type", text, &STAGE_TYPES)
}

/// `MODE[,MODE]`, each with optional modifiers in parentheses.
pub(super) fn access_modes(text: &str) -> Result<Vec<AccessModeRequest>, String> {
    let mut requests: Vec<AccessModeRequest> = Vec::new();
    for entry in split_outside_parentheses(text) {
        let request = access_mode(entry)?;
        match requests.iter().find(|given| given.mode == request.mode) {
            None => requests.push(request),
            Some(given) if *given == request => {}
            Some(_) => {
                return Err(format!(
                    "access mode `{entry}` is given twice, with different modifiers; keep one of them"
                ));
            }
        }
    }
    Ok(requests)
}

fn access_mode(entry: &str) -> Result<AccessModeRequest, String> {
    let Some((mode, modifiers)) = entry.split_once('(') else {
        return Ok(AccessModeRequest { mode: one_of("access_mode", entry, &MODES)?, modifiers: Vec::new() });
    };
    let modifiers = modifiers
        .strip_suffix(')')
        .ok_or_else(|| format!("access mode `{entry}` does not end with its closing parenthesis"))?;
    let pairs = modifiers.split(',').map(|modifier| match modifier.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "access mode `{entry}`: expected NAME=VALUE in the parentheses, as striped(client_cache=yes)"
        )),
    });
    let mode = one_of("access_mode", mode, &MODES)?;
    let mut modifiers: Vec<(String, String)> = Vec::new();
    for pair in pairs {
        let (name, value) = pair?;
        match modifiers.iter().find(|(given, _)| *given == name) {
            None => modifiers.push((name, value)),
            Some((_, first)) if *first == value => {}
            Some((_, first)) => {
                return Err(format!(
                    "access mode `{entry}`: {name}= is given twice, as {first} and as {value}"
                ));
            }
        }
    }
    Ok(AccessModeRequest { mode, modifiers })
}

/// Splits at the commas that are not inside parentheses.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0u32;
    text.split(|c: char| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

/// The value with this name.
fn one_of<T: Copy>(option: &str, text: &str, values: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = values.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let advice = match closest(text, &names) {
        Some(guess) => format!("did you mean {guess}?"),
        None => format!("expected {}", names.join(", ")),
    };
    Err(format!("unknown {option} `{text}`; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_bytes_or_nodes_and_never_nothing() {
        assert_eq!(capacity("1.5GiB"), Ok(Capacity::Bytes(1_610_612_736)));
        for text in ["2N", "2node", "2Nodes"] {
            assert_eq!(capacity(text), Ok(Capacity::Nodes(2)), "{text}");
        }
        for (text, part) in [("0GiB", "is zero"), ("0N", "is zero"), ("nodes", "number"), ("1.5N", "unit")] {
            let error = capacity(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn modes_may_have_modifiers() {
        let modes = access_modes("striped(client_cache=yes,MFS=1GiB),private").expect("well written");
        assert_eq!(modes[0].mode, RequestedMode::Striped);
        assert_eq!(
            modes[0].modifiers,
            [("client_cache".into(), "yes".into()), ("MFS".into(), "1GiB".into())]
        );
        assert_eq!(modes[1], AccessModeRequest { mode: RequestedMode::Private, modifiers: vec![] });
    }

    #[test]
    fn what_is_said_twice_alike_is_said_once() {
        let once = access_modes("striped(client_cache=yes),private");
        assert_eq!(access_modes("striped(client_cache=yes,client_cache=yes),private,private"), once);
    }

    #[test]
    fn a_wrong_mode_is_named() {
        for (text, part) in [
            ("stripe", "did you mean striped?"),
            ("striped,", "unknown access_mode ``"),
            ("striped,striped(client_cache=yes)", "twice, with different modifiers"),
            ("striped(client_cache=yes,client_cache=no)", "twice, as yes and as no"),
            ("striped(client_cache=yes", "closing parenthesis"),
            ("striped(client_cache)", "NAME=VALUE"),
            ("striped()", "NAME=VALUE"),
            ("shared", "expected striped, private, ldbalance"),
        ] {
            let error = access_modes(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
