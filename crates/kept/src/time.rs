//! A time in a metadata log, which has bytes and no names: the order counts. `store/shard/record/tests.rs` has them.

use wire::data::Time;

form! {
    struct TimeForm of Time {
        seconds: i64,
        nanos: u32,
    }
}
