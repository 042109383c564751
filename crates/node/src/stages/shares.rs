//! How the node's bandwidth for staging is shared: evenly by what copies on it, the workers of its own stages and the
//! movers for other nodes' stages.

use std::sync::Arc;

use tokio::sync::watch;
use wire::node::{StageControl, StagePace, StagePolicy};

/// The limit of one node.
#[derive(Debug)]
pub(crate) struct Shares {
    limit: Option<u64>,
    working: watch::Sender<u64>,
}

/// One process's part, as long as it is at work.
pub(crate) struct Share {
    shares: Arc<Shares>,
    working: watch::Receiver<u64>,
}

impl Shares {
    /// For a node that may read from the PFS and write to it so many bytes a second; `None`: as many as it can.
    pub(crate) fn new(limit: Option<u64>) -> Arc<Shares> {
        Arc::new(Shares { limit, working: watch::Sender::new(0) })
    }

    /// A worker or mover begins.
    pub(crate) fn join(self: &Arc<Shares>) -> Share {
        self.working.send_modify(|working| *working += 1);
        Share { shares: Arc::clone(self), working: self.working.subscribe() }
    }
}

impl Share {
    /// What the stage's worker is told.
    pub(crate) fn of_worker(&mut self, policy: &StagePolicy, control: &StageControl) -> StagePace {
        StagePace {
            paused: control.paused,
            bandwidth_bytes_per_s: control.bandwidth_bytes_per_s.or(policy.bandwidth_bytes_per_s),
            ..self.of_mover()
        }
    }

    /// What a mover is told: its coordinator knows the rest.
    pub(crate) fn of_mover(&mut self) -> StagePace {
        let working = (*self.working.borrow_and_update()).max(1);
        let share = self.shares.limit.map(|limit| (limit / working).max(1));
        StagePace { node_bandwidth_bytes_per_s: share, ..StagePace::default() }
    }

    /// Completes when others began or ended.
    pub(crate) async fn changed(&mut self) {
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
    fn workers_and_movers_share_the_nodes_bandwidth_and_a_stage_keeps_its_own_limit() {
        let shares = Shares::new(Some(900));
        let limited = StagePolicy { bandwidth_bytes_per_s: Some(400), ..StagePolicy::default() };
        let slower = StageControl { bandwidth_bytes_per_s: Some(7), paused: true };
        let (mut worker, mut mover) = (shares.join(), shares.join());
        let pace = |stage, node| StagePace {
            paused: false,
            bandwidth_bytes_per_s: stage,
            node_bandwidth_bytes_per_s: Some(node),
        };
        let told =
            |worker: &mut Share, policy: &StagePolicy| worker.of_worker(policy, &StageControl::default());
        assert_eq!(told(&mut worker, &StagePolicy::default()), pace(None, 450));
        assert_eq!(told(&mut worker, &limited), pace(Some(400), 450));
        assert_eq!(mover.of_mover(), pace(None, 450));
        let third = shares.join();
        assert_eq!(told(&mut worker, &limited), pace(Some(400), 300));
        assert_eq!(mover.of_mover(), pace(None, 300));
        assert_eq!(worker.of_worker(&limited, &slower), StagePace { paused: true, ..pace(Some(7), 300) });
        drop((third, mover));
        assert_eq!(told(&mut worker, &limited), pace(Some(400), 900));
    }
}
