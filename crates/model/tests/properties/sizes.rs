//! Sizes against plain arithmetic with wider integers.

use model::size::{self, SizeError};
use proptest::prelude::*;

const UNITS: [(&str, u64); 16] = [
    ("", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("P", 1 << 50),
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
];

/// The value `bytes / unit` with every decimal that it has, by long division; the units all divide a power of ten.
fn exact_decimal(bytes: u64, unit: u64) -> String {
    let mut text = (bytes / unit).to_string();
    let mut rest = u128::from(bytes % unit);
    if rest > 0 {
        text.push('.');
    }
    while rest > 0 {
        rest *= 10;
        text += &(rest / u128::from(unit)).to_string();
        rest %= u128::from(unit);
    }
    text
}

fn mixed_case(text: &str, upper: &[bool]) -> String {
    let flip =
        |(c, upper): (char, &bool)| if *upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    text.chars().zip(upper.iter().cycle()).map(flip).collect()
}

proptest! {
    #[test]
    fn every_number_of_bytes_can_be_written_in_every_unit(
        bytes: u64,
        (unit, factor) in proptest::sample::select(&UNITS[..]),
        upper in prop::collection::vec(any::<bool>(), 3),
    ) {
        let text = exact_decimal(bytes, factor) + &mixed_case(unit, &upper);
        prop_assert_eq!(size::parse(&text), Ok(bytes), "{}", text);
    }

    #[test]
    fn decimals_agree_with_wide_integers(
        whole in 0u64..10_000_000_000,
        fraction in "[0-9]{1,12}",
        (unit, factor) in proptest::sample::select(&UNITS[..]),
    ) {
        let text = format!("{whole}.{fraction}{unit}");
        let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap());
        let scaled = (u128::from(whole) * scale + fraction.parse::<u128>().unwrap()) * u128::from(factor);
        let parsed = size::parse(&text);
        match u64::try_from(scaled / scale) {
            Err(_) => prop_assert!(
                matches!(parsed, Err(SizeError::Overflow { .. } | SizeError::NotWhole { .. })), "{:?}", parsed
            ),
            Ok(bytes) if scaled % scale == 0 => prop_assert_eq!(parsed, Ok(bytes)),
            Ok(_) => prop_assert_eq!(parsed, Err(SizeError::NotWhole { text })),
        }
    }

    #[test]
    fn whole_units_are_shown_as_they_are_read(count in 1u64..1024, shift in 1u32..6) {
        let bytes = count << (10 * shift);
        prop_assert_eq!(size::parse(&size::display(bytes).replace(' ', "")), Ok(bytes));
    }

    #[test]
    fn shown_sizes_are_near(bytes: u64) {
        let shown = size::display(bytes);
        let (number, unit) = shown.split_once(' ').unwrap();
        let unit = if unit == "bytes" { 1 } else { size::parse(&format!("1{unit}")).unwrap() };
        let error = (number.parse::<f64>().unwrap() * unit as f64 - bytes as f64).abs();
        prop_assert!(error <= 0.051 * unit as f64, "{shown} for {bytes}");
    }

    #[test]
    fn grains_hold_the_bytes_and_no_grain_is_wasted(bytes: u64, granularity in 1u64..1 << 40) {
        match size::grains(bytes, granularity) {
            Some(grains) => {
                prop_assert!(grains * granularity >= bytes);
                prop_assert!(grains == 0 || (grains - 1) * granularity < bytes);
            }
            None => prop_assert!(u128::from(bytes.div_ceil(granularity)) * u128::from(granularity) > u128::from(u64::MAX)),
        }
    }

    #[test]
    fn any_text_is_a_size_or_an_error(text in "\\PC*") {
        if let Err(error) = size::parse(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
