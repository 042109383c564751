//! The thread that seals what has come to rest, and begins the scrubs that are due.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::schedule::Schedule;
use crate::integrity::pace::Pace;
use crate::objects::Objects;

/// How long an object is left alone before it is sealed: what is being written is not summed again and again.
const REST: Duration = Duration::from_secs(10);

/// The same, where the process was told otherwise.
static REST_OF_PROCESS: OnceLock<Duration> = OnceLock::new();

/// How often to look for objects at rest.
const PERIOD: Duration = Duration::from_secs(1);

/// Bytes a second that are read for sealing: most are in the page cache still.
const BYTES_PER_S: u64 = 256 << 20;

/// Has objects of this process sealed when nobody changed them for `rest`: the first call counts.
pub fn seal_after(rest: Duration) {
    let _set = REST_OF_PROCESS.set(rest);
}

/// How long an object is left alone before it is sealed.
pub fn rest() -> Duration {
    REST_OF_PROCESS.get().copied().unwrap_or(REST)
}

/// Starts the thread that seals what comes to rest. It ends when the objects are closed.
pub fn start(objects: &Arc<Objects>, namespace: u32) {
    let objects = Arc::downgrade(objects);
    let run = move || run(&objects, namespace);
    if let Err(error) = std::thread::Builder::new().name("sealer".into()).spawn(run) {
        tracing::error!(%error, "no thread to seal objects: damage of their bytes will not be found");
    }
}

fn run(objects: &Weak<Objects>, namespace: u32) {
    let mut is_first = true;
    let mut scrubs = None;
    let mut failed = false;
    loop {
        std::thread::sleep(PERIOD.min(rest()));
        let Some(objects) = objects.upgrade().filter(|objects| !objects.keeper().is_closed()) else { return };
        let sealed = match is_first {
            true => objects.adopt(),
            false => Ok(()),
        };
        is_first = false;
        let sealed = sealed.and_then(|()| objects.seal_idle(rest(), &mut Pace::new(Some(BYTES_PER_S))));
        if let Err(error) = &sealed
            && !failed
        {
            tracing::warn!(namespace, %error, "cannot seal objects: damage of their bytes will not be found");
        }
        failed = sealed.is_err();
        scrubs.get_or_insert_with(|| Schedule::of(&objects)).turn(&objects, namespace, rest());
    }
}
