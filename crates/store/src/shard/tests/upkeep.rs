//! A log that is replaced while others sync it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

#[test]
fn a_log_is_replaced_beside_any_number_of_syncs() {
    let home = Home::new();
    let (over, next) = (AtomicBool::new(false), AtomicU64::new(1 << 20));
    let change_and_sync = || {
        while !over.load(Ordering::Relaxed) {
            let id = next.fetch_add(1, Ordering::Relaxed);
            let name = id.to_string().into_bytes();
            let create = Request::Create { parent: ROOT, name, mode: 0o600, creator: ME };
            home.shard.handle(Caller { session: SESSION, id }, create);
            home.shard.sync_log().unwrap();
        }
    };
    let replaced: Vec<std::io::Result<()>> = std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(change_and_sync)));
        let replaced = (0..100).map(|_| home.shard.replace_log()).collect();
        over.store(true, Ordering::Relaxed);
        replaced
    });
    for result in replaced {
        result.unwrap();
    }
}
