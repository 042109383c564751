//! A cluster on one machine: control and two nodes, each a process with an address of its own, that find each other
//! over TCP and believe each other by MUNGE. Needs root, `munged`, FUSE, and the other programs built beside this one.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::disallowed_methods, reason = "a wrong answer of `Path::exists` fails the test")]

mod accepted;
mod audit;
mod failing;
mod given_up;
mod hosts;
mod jobs;
mod kept;
mod lost;
mod lost_meanwhile;
mod paused;
mod power;
mod standstill;
mod trouble;
