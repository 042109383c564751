//! Private volumes on logical volumes and with project quota, which need a device mapper and XFS quota in the kernel.
//!
//! The tests bring a kernel that has both: Debian's user-mode Linux, an ordinary process with the files of this machine
//! as its root and two disks of its own. It is booted twice. In its first life volumes are made, filled, discarded and
//! kept; then it is killed, which to its disks is a power cut; its second life finds the volumes again.
//!
//! `volumes first` and `volumes second` is what runs inside.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::print_stdout, reason = "it is what a test runner is for")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod guest;
mod inside;

use std::time::Instant;

use guest::Guest;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("first") => inside::first_life(),
        Some("second") => inside::second_life(),
        _ => std::process::exit(outside()),
    }
}

fn outside() -> i32 {
    let started = Instant::now();
    if !rustix::process::geteuid().is_root() {
        println!("volumes need root: left out");
        return 0;
    }
    let guest = Guest::new();
    let mut lines = guest.boot("first");
    lines.extend(guest.boot("second"));
    let passed = lines.iter().filter(|line| inside::has_passed(line)).count();
    let failed = inside::TESTS - passed.min(inside::TESTS);
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = started.elapsed().as_secs_f64();
    println!("\ntest result: {word}. {passed} passed; {failed} failed; finished in {seconds:.2}s");
    i32::from(failed > 0)
}
