//! The closer's own code and tests once more, under random schedules of their threads. One that fails is printed, and
//! `shuttle::replay` repeats it.

#[expect(clippy::duplicate_mod, reason = "with other locks")]
#[path = "closer.rs"]
mod closer;

#[path = "../../../tests/shuttled.rs"]
mod sync;
