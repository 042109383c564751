//! The formats of the small JSON files that a fragment keeps: see [`disk::format`].

/// Of `spec.json`.
pub(crate) const SPECIFICATION: u32 = disk::format::OF_FRAGMENTS;

/// The same where what is said of the instance is not encrypted.
pub(crate) const IN_CLEAR: u32 = 1;

/// Of `mirrors/K.json` and `mirrored/K/meetings.json`.
pub(crate) const MIRROR: u32 = 1;

/// Of `terms.json`.
pub(crate) const TERMS: u32 = 1;

/// Of `verifier.json`.
pub(crate) const VERIFIER: u32 = 1;
