//! `pools`: what there is to allocate. Slurm asks when it starts and waits for the answer; without one it lets jobs run
//! and end without their buffers. So the last good answer is kept in a file, and given again while control is down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use wire::control::PoolStatus;

use super::answer::Answer;
use api::control::Control;

/// Where the last good answer is kept, unless `$FOREBAY_CACHE` names a folder.
const CACHE_FOLDER: &str = "/var/cache/forebay";

/// Slurm's start waits for this; the file answers afterwards.
const LIMIT: Duration = Duration::from_millis(2500);

pub(super) fn run() -> Answer {
    let folder = std::env::var_os("FOREBAY_CACHE").map_or_else(|| CACHE_FOLDER.into(), PathBuf::from);
    let file = folder.join("pools.json");
    match Control::within(LIMIT).get::<Vec<PoolStatus>>("/v1/pools") {
        Ok(pools) => {
            let answer = Answer::json(&form(&pools));
            if let Answer::Done(text) = &answer {
                keep(&file, text);
            }
            answer
        }
        Err(error) => kept(&file).unwrap_or_else(|| Answer::failed(error)),
    }
}

/// A pool without grains is left out: Slurm divides by its granularity.
fn form(pools: &[PoolStatus]) -> Value {
    let pools = pools.iter().filter(|pool| pool.granularity_bytes > 0).map(|pool| {
        json!({
            "id": pool.name,
            "units": "bytes",
            "granularity": pool.granularity_bytes,
            "quantity": pool.quantity,
            "free": pool.free,
        })
    });
    json!({ "pools": pools.collect::<Vec<_>>() })
}

/// A site that gives no folder for it has no such file; that is no failure of the function.
fn keep(file: &Path, text: &str) {
    let draft = file.with_extension(std::process::id().to_string());
    if std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, file)).is_err() {
        let _ = std::fs::remove_file(&draft);
    }
}

fn kept(file: &Path) -> Option<Answer> {
    let text = std::fs::read_to_string(file).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value["pools"].is_array().then_some(Answer::Done(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, granularity_bytes: u64) -> PoolStatus {
        PoolStatus { name: name.into(), granularity_bytes, quantity: 4096, free: 4090 }
    }

    #[test]
    fn the_form_is_slurms_and_has_no_pool_to_divide_by_zero() {
        assert_eq!(
            form(&[pool("wlm_pool", 16 << 20), pool("broken", 0)]),
            json!({"pools": [{"id": "wlm_pool", "units": "bytes", "granularity": 16_777_216,
                              "quantity": 4096, "free": 4090}]})
        );
    }

    #[test]
    fn the_last_good_answer_is_found_again_and_a_damaged_one_is_not_given() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pools.json");
        assert_eq!(kept(&file), None);
        keep(&file, r#"{"pools":[]}"#);
        assert_eq!(kept(&file), Some(Answer::Done(r#"{"pools":[]}"#.into())));
        keep(&file, r#"{"pools":["#);
        assert_eq!(kept(&file), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
