//! A stage's ticket comes over HTTP from whoever reaches a node: no specification is believed that control did not sign.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::data::hello::Key;
use wire::mover::has_ticket;
use wire::node::StageSpec;

fuzz_target!(|bytes: &[u8]| {
    let key = Key::from_hex(&"5a".repeat(32)).expect("64 digits");
    if let Ok(stage) = serde_json::from_slice::<StageSpec>(bytes) {
        assert!(!has_ticket(&key, &stage), "nobody has signed it");
    }
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = Key::from_hex(text);
    }
});
