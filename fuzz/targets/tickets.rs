//! A stage's ticket comes over HTTP from anybody who reaches a node: none is believed that control did not sign.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::data::hello::Key;
use wire::node::StageSpec;
use wire::ticket;

fuzz_target!(|bytes: &[u8]| {
    let verifier = ticket::verifier(&Key::from_hex(&"5a".repeat(32)).expect("64 digits"));
    if let Ok(stage) = serde_json::from_slice::<StageSpec>(bytes) {
        ticket::check(&verifier, &stage).expect_err("nobody has signed it");
    }
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = Key::from_hex(text);
    }
});
