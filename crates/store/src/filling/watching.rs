//! Whether the mirror's node lives, asked over a connection of its own: others wait for its disk, which may take its
//! time.
//!
//! **Invariant:** a node that says nothing for [`crate::doubt::SILENT_MAX`] is noticed, whatever else it was asked.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use wire::data::Request;

use crate::mirror::Mirror;
use crate::mirror::link::Link;

/// How often to ask.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Starts the thread, which ends when the fragment is closed.
pub(super) fn start(mirror: &Arc<Mirror>) -> io::Result<()> {
    let mirror = mirror.clone();
    std::thread::Builder::new().name("mirror-lives".into()).spawn(move || run(&mirror)).map(drop)
}

fn run(mirror: &Mirror) {
    while let Some(epoch) = mirror.await_found() {
        if let Err(error) = watch(mirror, epoch) {
            mirror.broke(epoch, &error);
        }
    }
}

fn watch(mirror: &Mirror, epoch: u64) -> io::Result<()> {
    let mut link = Link::reach(mirror.place(), epoch)?;
    while !mirror.is_over(epoch) {
        link.ask(&Request::Verifier, &[])?;
        std::thread::sleep(ASK_EVERY);
    }
    Ok(())
}
