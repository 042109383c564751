//! The queue's own code and tests once more, under random schedules of their threads. One that fails is printed, and
//! `shuttle::replay` repeats it.

#[expect(clippy::duplicate_mod, reason = "with other locks")]
#[path = "queue.rs"]
mod queue;

#[path = "../../../tests/shuttled.rs"]
mod sync;
