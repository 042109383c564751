//! Crashes under load: `kill -9` at random moments, nodes that stay away or hang, disks that lose what was not synced.
//!
//! As root only. The seed of each run is printed; `FOREBAY_CRASH_SEED` repeats it as far as the machine's timing
//! allows, and `FOREBAY_CRASH_KILLS` says how many processes each of the runs under load kills;
//! `FOREBAY_CRASH_POWER_LOSSES`, how often the power of all nodes fails, and `FOREBAY_CRASH_NODE_POWER_LOSSES`, that of
//! single ones.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(
    clippy::print_stderr,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod away;
mod copies;
mod disk;
mod hostile;
mod kills;
mod lost;
mod one_node;
mod passed;
mod replaced;
mod rolled_back;
mod rot;
mod shut_down;
mod sick;
mod unconfirmed;
mod unverified;

/// The number in an environment variable.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}
