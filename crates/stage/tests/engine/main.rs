//! The engine from end to end, between two plain folders.

mod faults;
mod lists;
mod resume;
mod round_trip;
mod support;
