//! How many entries of a run have other times at the target than at the source: see `times`.

use wire::data::Time;

/// What was found to differ.
#[derive(Default)]
pub(crate) struct Differing {
    pub(crate) entries: u64,
    pub(crate) first: Option<First>,
}

/// The first one.
pub(crate) struct First {
    pub(crate) shown: String,
    pub(crate) wanted: Time,
    pub(crate) found: Time,
}
