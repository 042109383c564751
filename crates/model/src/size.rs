//! Sizes as people write and read them: `10GB` is 10^10 bytes, `10GiB` and `10G` are 10 * 2^30.
//!
//! **Invariant:** a size is exact or refused; nothing here shrinks, and nothing rounds but [`display`] and [`grains`].

/// Unit names, lower case, with their bytes. Slurm's table (`burst_buffer_common.c`, `bb_get_size_num`): a bare letter
/// and the `i` forms are powers of 1024, the `B` forms powers of 1000.
const UNITS: [(&str, u64); 17] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
];

/// The units that [`display`] writes, largest first.
const SHOWN: [(&str, u64); 5] =
    [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Why a text is not a size. Every message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// There is nothing.
    #[error("the size is empty; write a number and a unit, as 10GiB")]
    Empty,
    /// It begins with `+` or `-`.
    #[error("size `{text}` has a sign; write the number without it")]
    Sign {
        /// The whole text.
        text: String,
    },
    /// It contains white space.
    #[error("size `{text}` contains white space; write number and unit together, as 10GiB")]
    WhiteSpace {
        /// The whole text.
        text: String,
    },
    /// It does not begin with a number such as `10` or `1.5`.
    #[error("size `{text}` does not begin with a number; write it as 10GiB or 1.5GiB")]
    NotANumber {
        /// The whole text.
        text: String,
    },
    /// The unit is not one of ours.
    #[error(
        "unknown unit `{unit}` in size `{text}`; use KB, MB, GB, TB, PB (powers of 1000), \
         KiB, MiB, GiB, TiB, PiB or K, M, G, T, P (powers of 1024), or no unit for bytes"
    )]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What follows the number.
        unit: String,
    },
    /// A decimal that is no whole number of bytes.
    #[error("size `{text}` is not a whole number of bytes; use fewer decimals or a smaller unit")]
    NotWhole {
        /// The whole text.
        text: String,
    },
    /// 2^64 bytes or more.
    #[error("size `{text}` is too large; the most is 16 EiB less one byte")]
    Overflow {
        /// The whole text.
        text: String,
    },
}

/// Bytes of a size such as `512`, `10GB`, `10GiB` or `1.5T`; units in any case.
///
/// # Errors
/// See [`SizeError`]; a decimal is accepted only where it is a whole number of bytes.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let owned = || text.to_owned();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    if text.contains(char::is_whitespace) {
        return Err(SizeError::WhiteSpace { text: owned() });
    }
    if text.starts_with(['+', '-']) {
        return Err(SizeError::Sign { text: owned() });
    }
    let (integer, rest) = split_digits(text);
    let (fraction, unit) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("0", rest),
    };
    if integer.is_empty() || fraction.is_empty() {
        return Err(SizeError::NotANumber { text: owned() });
    }
    let factor =
        factor(unit).ok_or_else(|| SizeError::UnknownUnit { text: owned(), unit: unit.to_owned() })?;
    let overflow = || SizeError::Overflow { text: owned() };
    let whole = integer.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(overflow)?;
    let part = fraction_of(factor, fraction).ok_or_else(|| SizeError::NotWhole { text: owned() })?;
    whole.checked_add(part).ok_or_else(overflow)
}

/// Whether `text` is the name of a unit, so that `10 GiB` can be told from two unrelated words.
pub fn is_unit(text: &str) -> bool {
    !text.is_empty() && factor(text).is_some()
}

/// A size for people, to one decimal: `1.5 GiB`, `512 bytes`. Not exact: never parse it, never compute with it.
pub fn display(bytes: u64) -> String {
    // A twentieth of the next smaller unit below, for what rounds up to 1024 of that: 1023.97 MiB reads `1 GiB`.
    let Some((name, unit)) = SHOWN.into_iter().find(|(_, unit)| bytes >= unit - unit / 1024 / 20) else {
        return format!("{bytes} bytes");
    };
    let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2)) / u128::from(unit);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// How many grains of `granularity` bytes hold `bytes`, rounded up; `None` where that many grains are 2^64 bytes or
/// more, or a grain is empty.
pub fn grains(bytes: u64, granularity: u64) -> Option<u64> {
    if granularity == 0 {
        return None;
    }
    let grains = bytes.div_ceil(granularity);
    grains.checked_mul(granularity).map(|_| grains)
}

/// Bytes in one unit of this name.
fn factor(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// The leading ASCII digits, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `0.digits * factor`, if that is whole. Long multiplication from the last digit: exact for any number of decimals.
fn fraction_of(factor: u64, digits: &str) -> Option<u64> {
    let mut carry = 0u128;
    for digit in digits.bytes().rev() {
        carry += u128::from(digit - b'0') * u128::from(factor);
        if !carry.is_multiple_of(10) {
            return None;
        }
        carry /= 10;
    }
    u64::try_from(carry).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_and_1024s_are_told_apart() {
        assert_eq!(parse("10GB"), Ok(10_000_000_000));
        assert_eq!(parse("10GiB"), Ok(10 << 30));
        assert_eq!(parse("10g"), Ok(10 << 30));
        assert_eq!(parse("10gb"), Ok(10_000_000_000));
        assert_eq!(parse("7"), Ok(7));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn decimals_are_exact_or_refused_and_never_shrunk() {
        assert_eq!(parse("1.5GiB"), Ok(1_610_612_736));
        assert_eq!(parse("3.5TB"), Ok(3_500_000_000_000));
        assert_eq!(parse("1.50000000000000000000000000000000000000000GiB"), Ok(1_610_612_736));
        assert_eq!(parse("1.3KiB"), Err(SizeError::NotWhole { text: "1.3KiB".into() }));
        assert_eq!(parse("0.5"), Err(SizeError::NotWhole { text: "0.5".into() }));
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        let text = |t: &str| t.to_owned();
        assert_eq!(parse(""), Err(SizeError::Empty));
        assert_eq!(parse("-1GB"), Err(SizeError::Sign { text: text("-1GB") }));
        assert_eq!(parse("10 GiB"), Err(SizeError::WhiteSpace { text: text("10 GiB") }));
        assert_eq!(parse("GiB"), Err(SizeError::NotANumber { text: text("GiB") }));
        assert_eq!(parse(".5GiB"), Err(SizeError::NotANumber { text: text(".5GiB") }));
        assert_eq!(parse("5.GiB"), Err(SizeError::NotANumber { text: text("5.GiB") }));
        assert_eq!(parse("1,5GB"), Err(SizeError::UnknownUnit { text: text("1,5GB"), unit: text(",5GB") }));
        assert_eq!(parse("5GX"), Err(SizeError::UnknownUnit { text: text("5GX"), unit: text("GX") }));
        assert_eq!(parse("16384PiB"), Err(SizeError::Overflow { text: text("16384PiB") }));
    }

    #[test]
    fn people_read_the_nearest_tenth() {
        assert_eq!(display(1023), "1023 bytes");
        assert_eq!(display(1024), "1 KiB");
        assert_eq!(display(1_610_612_736), "1.5 GiB");
        assert_eq!(display((1 << 30) - 1), "1 GiB");
        assert_eq!(display(983 << 20), "983 MiB");
        assert_eq!(display(10_000_000_000), "9.3 GiB");
        assert_eq!(display(u64::MAX), "16384 PiB");
    }

    #[test]
    fn grains_round_up() {
        assert_eq!(grains(1, 16), Some(1));
        assert_eq!(grains(16, 16), Some(1));
        assert_eq!(grains(17, 16), Some(2));
        assert_eq!(grains(0, 16), Some(0));
        assert_eq!(grains(u64::MAX, 16), None);
        assert_eq!(grains(1, 0), None);
    }
}
