//! How the node's bandwidth for staging is shared: evenly by the stages that are at work.

use std::sync::Arc;

use tokio::sync::watch;
use wire::node::{StageControl, StagePolicy};

/// The limit of one node.
#[derive(Debug)]
pub struct Shares {
    limit: Option<u64>,
    working: watch::Sender<u64>,
}

/// One stage's part, as long as it is at work.
pub struct Share {
    shares: Arc<Shares>,
    working: watch::Receiver<u64>,
}

impl Shares {
    /// For a node that may read from the PFS and write to it so many bytes a second; `None`: as many as it can.
    pub fn new(limit: Option<u64>) -> Arc<Shares> {
        Arc::new(Shares { limit, working: watch::Sender::new(0) })
    }

    /// A stage begins.
    pub fn join(self: &Arc<Shares>) -> Share {
        self.working.send_modify(|working| *working += 1);
        Share { shares: Arc::clone(self), working: self.working.subscribe() }
    }
}

impl Share {
    /// What the stage's worker is told.
    pub fn apply(&mut self, policy: &StagePolicy, control: &StageControl) -> StageControl {
        let working = (*self.working.borrow_and_update()).max(1);
        let own = control.bandwidth_bytes_per_s.or(policy.bandwidth_bytes_per_s);
        let share = self.shares.limit.map(|limit| (limit / working).max(1));
        let limits = [own, share].into_iter().flatten();
        StageControl { paused: control.paused, bandwidth_bytes_per_s: limits.min() }
    }

    /// Completes when other stages began or ended.
    pub async fn changed(&mut self) {
        // The sender lives as long as this share.
        let _ = self.working.changed().await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.working.send_modify(|working| *working -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_at_work_share_the_nodes_bandwidth_and_keep_their_own_limit() {
        let shares = Shares::new(Some(900));
        let limited = StagePolicy { bandwidth_bytes_per_s: Some(400), ..StagePolicy::default() };
        let (free, control) = (StagePolicy::default(), StageControl::default());
        let mut first = shares.join();
        assert_eq!(first.apply(&free, &control).bandwidth_bytes_per_s, Some(900));
        assert_eq!(first.apply(&limited, &control).bandwidth_bytes_per_s, Some(400));
        let second = shares.join();
        let third = shares.join();
        assert_eq!(first.apply(&limited, &control).bandwidth_bytes_per_s, Some(300));
        let slower = StageControl { bandwidth_bytes_per_s: Some(7), paused: true };
        assert_eq!(first.apply(&limited, &slower), slower);
        drop((second, third));
        assert_eq!(first.apply(&free, &control).bandwidth_bytes_per_s, Some(900));
    }
}
