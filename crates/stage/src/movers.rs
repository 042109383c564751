//! Copying on other hosts: the coordinator plans, journals and gives files their names; a mover on the host of each
//! other storage node copies, with the rights of the stage's owner.
//!
//! ```text
//! coordinator                                               other storage node
//!   RemoteNode::start -- data path: StartMover ------------------> its service starts `forebay-stage --fragment`
//!   Link  -- Begin, then Copy, ReadBack, Files -------------> mover: a few threads at a time
//!     ^ lanes: threads that take units and small files from the stage's queue and give them to their link
//! ```
//!
//! **Invariant:** what a mover did counts when it has answered, and a small file only once the coordinator has given it
//! its name: that fails where the mover sees another file system under the same path. Nothing that a mover which hangs
//! could still write to, rename or remove is given a name: of small files it has parts of its own, which only the
//! coordinator names, and a large file that it was at is made again, as another file.

mod batch;
mod lane;
mod link;
mod probe;
pub(crate) mod record;

use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use model::FragmentIndex;
use wire::node::StageSpec;

use self::lane::Lane;
use self::link::Link;
use crate::copier::Copier;
use crate::queue::Host;
use crate::remote::{BYTES_MIN, LANES};
use crate::run::Run;

/// From so many entries on, starting processes on other hosts is worth its time, some 50 ms.
const ENTRIES_MIN: u64 = 500;

/// How often the monitor is asked whether there is so much.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until there is work for more hosts, then starts movers and the lanes to them.
pub(crate) fn start<'s>(run: &'s Arc<Run>, scope: &'s Scope<'s, '_>, spec: &'s StageSpec) {
    if !run.remote.may_help() {
        return;
    }
    while !run.monitor.has_found(BYTES_MIN, ENTRIES_MIN) {
        if run.queue.is_over() {
            return run.remote.dismiss();
        }
        std::thread::sleep(LOOK_EVERY);
    }
    for node in run.remote.nodes.iter() {
        scope.spawn(move || {
            let link = (node.start)().and_then(|stream| Link::begin(stream, node, run, spec));
            match link {
                Ok(link) => {
                    run.monitor.helped(&link.node, 0);
                    run.remote.joined();
                    let link = Arc::new(link);
                    for _ in 0..LANES {
                        let lane = Lane::new(link.clone());
                        scope.spawn(move || lane.work(run));
                    }
                }
                Err(error) => {
                    let text = format!("storage node {} does not help: {error}", node.node);
                    run.remark(&spec.source, &text);
                }
            }
            run.remote.answer();
        });
    }
}

/// A lane copies as this host does.
pub(crate) fn as_host(lane: &Arc<Lane>) -> Arc<dyn Copier> {
    lane.clone()
}

impl Host for Lane {
    fn fragment(&self) -> Option<FragmentIndex> {
        Some(self.link.fragment)
    }
}
