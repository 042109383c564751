//! Copying on other hosts: the coordinator plans, journals and gives files their names; a mover on the host of each
//! other storage node copies, with the rights of the stage's owner.
//!
//! ```text
//! coordinator                                               other storage node
//!   Recruit::hire -- data path: StartMover ------------------> its service starts `forebay-stage --fragment`
//!   Link  -- Begin, then Copy, ReadBack, Files -------------> serve: a few threads at a time
//!     ^ lanes: threads that take units and small files from the stage's queue and give them to their link
//! ```
//!
//! **Invariant:** what a mover did counts when it has answered, and a small file only once the coordinator has given it
//! its name: that fails where the mover sees another file system under the same path.

mod batch;
mod lane;
mod link;
mod record;
mod serve;

use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use wire::node::StageSpec;

use self::lane::Lane;
use self::link::Link;
pub use self::serve::{Post, ServeError, serve};
use crate::copier::Copier;
use crate::crew::{BYTES_MIN, LANES};
use crate::queue::Hand;
use crate::run::Run;

/// From so many entries on, starting processes on other hosts is worth its time, some 50 ms.
const ENTRIES_MIN: u64 = 500;

/// How often it is looked whether there is so much.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until there is work for more hosts, then starts movers and the lanes to them.
pub(crate) fn recruit<'s>(run: &'s Arc<Run>, scope: &'s Scope<'s, '_>, spec: &'s StageSpec) {
    if !run.crew.has_recruits() {
        return;
    }
    while !run.monitor.has_found(BYTES_MIN, ENTRIES_MIN) {
        if run.queue.is_over() {
            return run.crew.dismiss();
        }
        std::thread::sleep(LOOK_EVERY);
    }
    for recruit in run.crew.recruits.iter() {
        scope.spawn(move || {
            let link = (recruit.hire)().and_then(|stream| Link::begin(stream, recruit, run, spec));
            match link {
                Ok(link) => {
                    run.monitor.helped(&link.node, 0);
                    run.crew.joined();
                    let link = Arc::new(link);
                    for _ in 0..LANES {
                        let lane = Lane::new(link.clone());
                        scope.spawn(move || lane.work(run));
                    }
                }
                Err(error) => {
                    let text = format!("storage node {} does not help: {error}", recruit.node);
                    run.remark(&spec.source, &text);
                }
            }
            run.crew.answer();
        });
    }
}

/// A lane is a hand like this host's own.
pub(crate) fn as_hand(lane: &Arc<Lane>) -> Arc<dyn Copier> {
    lane.clone()
}

impl Hand for Lane {
    fn fragment(&self) -> Option<u32> {
        Some(self.link.fragment)
    }
}
