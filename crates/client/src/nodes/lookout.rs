//! Seeing that a node was lost and is back, though nobody asks it for anything: so that what it lost is told in time.

use std::time::Duration;

use super::Nodes;

impl Nodes {
    /// Looks at each node once, whose commit verifier is learned where connections to it were lost. One that is away is
    /// looked at again next time.
    pub fn look_out(&self) {
        for node in &self.nodes {
            let idle = node.idle().take();
            if let Some(mut link) = idle {
                // Nothing was asked: only the end of the connection can be there.
                match link.connection.is_ready(Duration::ZERO) {
                    Ok(false) => node.give_back(link),
                    Ok(true) | Err(_) => node.lost(link.life),
                }
            }
            let life = *node.life();
            if !life.begun
                && life.boot.is_some()
                && let Ok(link) = self.connect(node, node.fragment)
            {
                node.give_back(link);
            }
        }
    }
}
