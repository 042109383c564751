//! The engine from end to end between two plain folders, and the worker process with real storage nodes.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::disallowed_methods, reason = "a wrong answer of `Path::exists` fails the test")]
#![expect(clippy::unwrap_used, reason = "a set-up that fails is a test that fails")]

mod drained;
mod faults;
mod hanging;
mod lists;
mod metadata;
mod mounts;
mod movers;
mod parts;
mod policy;
mod renamed;
mod resume;
mod round_trip;
mod siblings;
mod support;
mod swapped;
mod torn;
mod unverified;
mod worker;
