//! The rules of CONTRIBUTING.md that a program can keep: each is a test, and is shown to fail on a planted violation.
//!
//! ```text
//! additions   what ARCHITECTURE.md says of what to touch: files that are there, at most four
//! arrows      which crate uses which: Cargo.toml against the list in ARCHITECTURE.md
//! circles     no two files of a crate that use each other, directly or by others; but a module and its own submodules
//!             may: a parent declares its children and gives on what is theirs
//! paths       what a file names, for circles
//! heads       each file says what it is for
//! lengths     of files and of functions
//! columns     of comments and prose
//! links       between pages lead somewhere; pages with commands are run by tests
//! blocks      of code in pages have a language, and pages a place in the site
//! manifests   of crates have versions from the workspace's
//! sent        types of `wire` in what a program reads again
//! commits     their subjects
//! licences    of what we link, against deny.toml
//! materials   what `scripts/sbom` lists, against Cargo.lock
//! listed      what broke a rule before there was one: `listed.txt`, whose numbers may only fall
//! ```
//!
//! **Invariant:** nothing is built, and nothing is written but `listed.txt`, and that only downwards.

pub mod additions;
pub mod arrows;
pub mod blocks;
pub mod circles;
pub mod columns;
pub mod commits;
pub mod heads;
pub mod lengths;
pub mod licences;
pub mod links;
pub mod listed;
pub mod manifests;
pub mod materials;
pub mod paths;
pub mod sent;
pub mod tree;

#[cfg(test)]
mod repository;
