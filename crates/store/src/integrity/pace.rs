//! How fast objects are read in the background.

use std::time::{Duration, Instant};

/// Bounds how fast something goes on.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: Option<u64>,
    begun: Instant,
    bytes: u64,
}

impl Pace {
    /// So many bytes a second; `None`: no bound.
    pub fn new(bytes_per_s: Option<u64>) -> Pace {
        Pace { bytes_per_s: bytes_per_s.filter(|rate| *rate > 0), begun: Instant::now(), bytes: 0 }
    }

    /// Waits as long as these bytes may take.
    pub fn spent(&mut self, bytes: u64) {
        self.bytes += bytes;
        let Some(rate) = self.bytes_per_s else { return };
        let due = Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
    }
}
