//! Names of hosts as Slurm writes them: `n[1-4,07-12]`, `head`, `r[1-2]n[1-3]-ib`.

use std::collections::BTreeSet;

use model::NodeName;

/// More names than any cluster has nodes.
const NAMES_MAX: usize = 1 << 17;

/// The names that these lists have together.
///
/// # Errors
/// Which is no such list, in words.
pub(super) fn names(lists: &[String]) -> Result<BTreeSet<NodeName>, String> {
    let mut all = BTreeSet::new();
    for list in lists {
        let named = expanded(list).and_then(|names| names.iter().map(|name| name.parse().ok()).collect());
        let named: Vec<NodeName> = named.ok_or_else(|| format!("{list:?} is no list of names as n[1-4]"))?;
        all.extend(named);
        if all.len() > NAMES_MAX {
            return Err(format!("more than {NAMES_MAX} names"));
        }
    }
    Ok(all)
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
            names(&[list.to_owned()])
                .map(|names| names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of("head").unwrap(), "head");
        assert_eq!(of("n[1-3,7]").unwrap(), "n1 n2 n3 n7");
        assert_eq!(of("io[08-11]-ib").unwrap(), "io08-ib io09-ib io10-ib io11-ib");
        assert_eq!(of("r[1-2]n[1-2]").unwrap(), "r1n1 r1n2 r2n1 r2n2");
        let wrong =
            ["", "n[", "n[]", "n[2-1]", "n[a-b]", "n[1-2", "n 1", "n[1-99999999999]", "n[+1]", "n]", "n [1]"];
        for wrong in wrong {
            assert!(of(wrong).unwrap_err().contains("is no list"), "{wrong}");
        }
    }
}
