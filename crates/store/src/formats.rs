//! The formats of the small JSON files that a fragment keeps: see [`disk::format`].

/// Of `mirrors/K.json` and `mirrored/K/meetings.json`.
pub(crate) const MIRROR: u32 = 1;

/// Of `terms.json`.
pub(crate) const TERMS: u32 = 1;

/// Of `verifier.json`.
pub(crate) const VERIFIER: u32 = 1;
