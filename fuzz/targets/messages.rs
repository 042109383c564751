//! What is understood as a message of the data path means one thing: encoded again it is understood as the same.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::data::{Reply, Request};

fuzz_target!(|bytes: &[u8]| {
    means_one_thing::<Request>(bytes);
    means_one_thing::<Reply>(bytes);
});

fn means_one_thing<M: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = postcard::from_bytes::<M>(bytes) else { return };
    let encoded = postcard::to_stdvec(&message).expect("messages can be encoded");
    assert_eq!(postcard::from_bytes::<M>(&encoded).expect("it was encoded by us"), message);
}
