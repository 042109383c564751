//! Ctrl-C and its like, counted: the first asks for a clean end, the second for one at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often SIGINT, SIGTERM or SIGHUP came.
#[derive(Clone)]
pub struct Interrupts {
    count: watch::Receiver<u32>,
}

impl Interrupts {
    /// Counts from now on; the signals no longer end the process. Must be called inside a runtime.
    ///
    /// # Errors
    /// The kernel refused a handler.
    pub fn listen() -> std::io::Result<Interrupts> {
        let (sender, count) = watch::channel(0);
        // SIGHUP as well: a job whose terminal is gone has nobody to read its summary, but its buffer is still to be
        // unmounted.
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let mut signals = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    sender.send_modify(|count| *count += 1);
                }
            });
        }
        Ok(Interrupts { count })
    }

    /// Whether a first one came.
    pub fn requested(&self) -> bool {
        *self.count.borrow() > 0
    }

    /// Completes once `wanted` have come.
    pub async fn reached(&self, wanted: u32) {
        let mut count = self.count.clone();
        if count.wait_for(|count| *count >= wanted).await.is_err() {
            // No listener is left, so none can come any more.
            std::future::pending::<()>().await;
        }
    }
}
