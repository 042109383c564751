//! Clients against real storage nodes, with no kernel in between.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alone;
mod copies;
mod cut;
mod doubted;
mod encrypted;
mod expired;
mod fenced;
mod inherited;
mod keeper;
mod losses;
mod mirrors;
mod namespace;
mod objects;
mod partial;
mod promises;
mod quiet;
mod relay;
mod repairs;
mod restored;
mod sessions;
mod slow;
mod successor;
mod support;
mod times;
mod told;
mod twice;
mod unsynced;
mod users;
