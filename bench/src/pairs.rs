//! Two sides that take turns.

use anyhow::Result;

/// Does `ours` and `theirs` once per pair. Each goes first equally often: what the first leaves behind, the second must
/// live with.
pub fn alternate<A, B>(
    pairs: usize,
    mut ours: impl FnMut() -> Result<A>,
    mut theirs: impl FnMut() -> Result<B>,
) -> Result<Vec<(A, B)>> {
    (0..pairs)
        .map(|pair| {
            if pair % 2 == 0 {
                let own = ours()?;
                Ok((own, theirs()?))
            } else {
                let other = theirs()?;
                Ok((ours()?, other))
            }
        })
        .collect()
}

/// The pairs of one of several rates that each side has measured at once.
pub fn nth(rates: &[(Vec<f64>, Vec<f64>)], index: usize) -> Vec<(f64, f64)> {
    rates.iter().map(|(ours, theirs)| (ours[index], theirs[index])).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn each_side_goes_first_in_turn() {
        let order = RefCell::new(String::new());
        let side = |name: char| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(name)
            }
        };
        assert_eq!(alternate(2, side('a'), side('b')).unwrap(), [('a', 'b'), ('a', 'b')]);
        assert_eq!(*order.borrow(), "abba");
    }
}
