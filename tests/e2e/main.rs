//! The whole system from its command line: what a user does, and what the user then finds.
//!
//! Tests in a module `root_only` need root (they mount small disks); those in `user_only` are about ordinary users.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod advice;
mod asked;
mod bad_input;
mod cancel;
mod capacity;
mod check;
mod copies;
mod crashes;
mod damage;
mod datawarp;
mod drain;
mod drain_again;
mod drain_hosts;
mod drain_links;
mod drain_model;
mod drain_on_close;
mod elsewhere;
mod interactive;
mod job;
mod local;
mod lost_callers;
mod mapped;
mod mirrors;
mod newcomers;
mod newer;
mod on_demand;
mod pages;
mod refused;
mod rekeyed;
mod remade;
mod said;
mod sbatch;
mod staging;
mod star_catalogue;
mod unmount;
mod with;
