//! The program as its users meet it, against a control service of the tests' own that answers with canned replies.
//!
//! Needs `/dev/fuse`, as `forebay run` does before it starts anything; nothing is mounted.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::disallowed_methods, reason = "a wrong answer of `Path::exists` fails the test")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod fake;
mod interruptions;
mod runs;
mod srun;
