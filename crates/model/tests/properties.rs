//! What holds for every script and every size, not only for the ones we thought of.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "properties/print.rs"]
mod print;
#[path = "properties/scripts.rs"]
mod scripts;
#[path = "properties/sizes.rs"]
mod sizes;
