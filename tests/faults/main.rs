//! Errors and deaths at single system calls: of a storage node's start, setup and teardown, of a drainer's start, and
//! of a mount. Each ends with the right result, or with a refusal that names what is wrong, and never with a loss.
//!
//! As root, with strace. `make faults` tries every call (`FOREBAY_FAULTS=all`); else some of them are, always the same.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod changes;
mod drains;
mod foreign;
mod locals;
mod mirrored;
mod mounts;
mod site;
mod starts;

use tests::injection::Call;

/// As many calls are tried of each list, spread over it, unless all are.
const SOME: usize = 24;

/// Those of the recorded calls that are tried.
fn tried(calls: Vec<Call>) -> Vec<Call> {
    assert!(calls.len() > 10, "strace has seen only {calls:?}");
    let all = std::env::var("FOREBAY_FAULTS").is_ok_and(|value| value == "all");
    let step = if all { 1 } else { calls.len().div_ceil(SOME) };
    eprintln!("{} calls, of which every {step}. is tried", calls.len());
    calls.into_iter().step_by(step).collect()
}
