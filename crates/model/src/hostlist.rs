//! Names of hosts as Slurm writes them: `n[1-4,07-12]`, `head`, `r[1-2]n[1-3]-ib`, `n[1-2],gpu1`.

use crate::NodeName;

/// More names than any cluster has nodes.
const NAMES_MAX: usize = 1 << 17;

/// It is no list of names of hosts, or of too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{list:?} is not a list of names such as n[1-4]")]
pub struct BadHostList {
    list: String,
}

/// The names of a list, in its order.
///
/// # Errors
/// It is none, or names more hosts than any cluster has.
pub fn names(list: &str) -> Result<Vec<NodeName>, BadHostList> {
    let mut all = Vec::new();
    for part in parts(list) {
        let names = expanded(part).filter(|names| all.len() + names.len() <= NAMES_MAX);
        let names = names.and_then(|names| names.iter().map(|name| name.parse().ok()).collect());
        let names: Vec<NodeName> = names.ok_or_else(|| BadHostList { list: list.to_owned() })?;
        all.extend(names);
    }
    Ok(all)
}

/// What is between commas that are in no brackets.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    list.split(move |c| {
        is_inside = c == '[' || (is_inside && c != ']');
        c == ',' && !is_inside
    })
}

/// What is before the first bracket, each number in it, and what the rest is.
fn expanded(list: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = list.split_once('[') else { return Some(vec![list.to_owned()]) };
    let (ranges, rest) = rest.split_once(']')?;
    let rest = if rest.is_empty() { vec![String::new()] } else { expanded(rest)? };
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number =
            |text: &str| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse::<usize>().ok())?;
        let (from, to, digits) = (number(first)?, number(last)?, first.len());
        if from > to || (to - from + 1).checked_mul(rest.len())? > NAMES_MAX {
            return None;
        }
        for n in from..=to {
            names.extend(rest.iter().map(|rest| format!("{before}{n:0digits$}{rest}")));
        }
    }
    (names.len() <= NAMES_MAX).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_is_read_as_slurm_writes_it() {
        let of = |list: &str| {
            let names = names(list).map_err(|error| error.to_string());
            names.map(|names| names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of("head").unwrap(), "head");
        assert_eq!(of("n[1-3,7]").unwrap(), "n1 n2 n3 n7");
        assert_eq!(of("io[08-11]-ib").unwrap(), "io08-ib io09-ib io10-ib io11-ib");
        assert_eq!(of("r[1-2]n[1-2]").unwrap(), "r1n1 r1n2 r2n1 r2n2");
        assert_eq!(of("n[9-10,2],gpu1,m[1-2]").unwrap(), "n9 n10 n2 gpu1 m1 m2");
        let wrong = [
            "",
            "n[",
            "n[]",
            "n[2-1]",
            "n[a-b]",
            "n[1-2",
            "n 1",
            "n[1-99999999999]",
            "n[+1]",
            "n]",
            "n [1]",
            "n1,",
            "n[1-99999],m[1-99999]",
        ];
        for wrong in wrong {
            assert!(of(wrong).unwrap_err().contains("is not a list"), "{wrong}");
        }
    }
}
