//! Clients against real storage nodes, with no kernel in between.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod copies;
mod keeper;
mod losses;
mod namespace;
mod objects;
mod partial;
mod promises;
mod sessions;
mod support;
mod times;
