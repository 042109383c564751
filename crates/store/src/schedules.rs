//! The code and tests of the ranges that are held, once more, under random schedules of their threads. One that fails
//! is printed, and `shuttle::replay` repeats it.

#[path = "mirror"]
mod mirror {
    #[expect(clippy::duplicate_mod, reason = "with other locks")]
    #[path = "ranges.rs"]
    mod ranges;
}

#[path = "../../../tests/shuttled.rs"]
mod sync;
