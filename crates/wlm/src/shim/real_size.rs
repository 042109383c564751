//! `real_size`: how large the buffer really is. Slurm uses it where it is more than was asked for; it asks also after a
//! failed setup, and ignores errors.

use serde_json::json;
use wire::control::RealSize;

use super::answer::Answer;
use super::arguments::Arguments;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    let token = match arguments.token() {
        Ok(token) => token,
        Err(failure) => return failure,
    };
    match control.get::<RealSize>(&session_path(token, "/real_size")) {
        Ok(size) => Answer::json(&json!({ "units": "bytes", "capacity": size.capacity })),
        Err(error) => Answer::failed(error),
    }
}
