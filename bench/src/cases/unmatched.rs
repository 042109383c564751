//! Aggregators that write their parts of one file, in numbers that do not divide those of the storage nodes, against
//! ones that do: on DataWarp that cost half of the bandwidth.

use std::collections::VecDeque;

use anyhow::Result;
use model::Ino;
use model::stripe::Layout;

use super::Effort;
use crate::buffer::{Buffer, Volume, memory};
use crate::namespace;
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::streams::{self, Files};

/// Aggregators, storage nodes, and how many aggregators would match.
const COUNTS: [(usize, u32, usize); 4] = [(3, 4, 4), (5, 4, 4), (7, 5, 5), (8, 3, 6)];

const TARGET: f64 = 0.9;

const MEBIBYTES: usize = 128;

/// The real thing, and what the stripe arithmetic makes of it where every node and every aggregator is a machine.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let Some(medium) = memory() else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for (aggregators, nodes, matching) in COUNTS {
        let buffer = Buffer::mount(medium, nodes, Volume::Directory)?;
        let [ours, theirs] =
            [namespace::clients(&buffer, aggregators)?, namespace::clients(&buffer, matching)?];
        let write = |clients| Ok(streams::run(clients, Files::One, MEBIBYTES)?.0);
        let rates = alternate(effort.pairs, || write(&ours), || write(&theirs))?;
        let case = format!("{aggregators} aggregators to {nodes} nodes");
        lines
            .push(Line::new(format!("{case}, written"), "MiB/s", "a number that matches", TARGET).of(&rates));
        let balances = (balance(aggregators, nodes), balance(matching, nodes));
        lines.push(
            Line::new(format!("{case}, share of peak by arithmetic"), "", "a number that matches", TARGET)
                .of(&[balances]),
        );
        drop((ours, theirs));
        buffer.unmount()?;
    }
    Ok(lines)
}

/// The share of the best possible bandwidth that aggregators reach on nodes that each serve one stripe in a unit of
/// time, first come, first served, when each has one request under way.
fn balance(aggregators: usize, nodes: u32) -> f64 {
    let layout = Layout::striped(nodes);
    let fragment = |mebibyte: usize| {
        let offset = mebibyte as u64 * u64::from(layout.stripe_size_bytes);
        layout.pieces(Ino(1), offset, 1).next().map_or(0, |piece| piece.fragment.place())
    };
    let mut left: Vec<VecDeque<usize>> = (0..aggregators)
        .map(|n| (MEBIBYTES * n / aggregators..MEBIBYTES * (n + 1) / aggregators).map(fragment).collect())
        .collect();
    let longest = left.iter().map(VecDeque::len).max().unwrap_or(0);
    let best = longest.max(MEBIBYTES.div_ceil(nodes as usize));
    let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); nodes as usize];
    let mut asking: Vec<usize> = (0..aggregators).collect();
    let mut steps = 0;
    loop {
        for aggregator in asking.drain(..) {
            if let Some(fragment) = left[aggregator].pop_front() {
                queues[fragment].push_back(aggregator);
            }
        }
        asking.extend(queues.iter_mut().filter_map(VecDeque::pop_front));
        if asking.is_empty() {
            return best as f64 / f64::from(steps);
        }
        steps += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_aggregator_on_one_node_is_the_best_there_is() {
        assert_eq!(balance(1, 1), 1.0);
        assert_eq!(balance(4, 1), 1.0);
    }

    #[test]
    fn a_number_that_does_not_divide_stays_within_a_tenth_of_one_that_does() {
        for (aggregators, nodes, matching) in COUNTS {
            let (ours, theirs) = (balance(aggregators, nodes), balance(matching, nodes));
            assert!(ours >= TARGET * theirs, "{aggregators} to {nodes}: {ours} of {theirs}");
        }
    }
}
