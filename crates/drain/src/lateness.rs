//! What is done when the drain will not be ready by the end of the job's time: it drops its bandwidth limit, its node
//! takes its low rank away, and it says so in the job's output. Only one of a job's nodes says it.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::drain::Drain;
use crate::status::Status;
use crate::wait::late;

/// How often the drain's end is compared with the job's.
const PERIOD: Duration = Duration::from_secs(1);

/// How often Slurm is asked for the job's end, while there is something to copy.
const ASK_PERIOD: Duration = Duration::from_secs(120);

/// The file in the session's folder that the node makes which warns.
const WARNED: &str = "warned";

impl Drain {
    /// Compares the drain's end with the job's, for ever.
    pub(crate) fn watch_deadline(&self) {
        let (mut asked, mut warned) = (None::<Instant>, false);
        loop {
            std::thread::sleep(PERIOD);
            let mut status = self.status();
            if status.bytes_left == 0 {
                continue;
            }
            if asked.is_none_or(|asked| asked.elapsed() > ASK_PERIOD) {
                self.deadline.ask();
                asked = Some(Instant::now());
                status.deadline = self.deadline.end();
            }
            let Some(missing_s) = late(&status) else { continue };
            self.hurry();
            if !std::mem::replace(&mut warned, true) {
                self.warn(&status, missing_s);
            }
        }
    }

    fn warn(&self, status: &Status, missing_s: u64) {
        if File::create_new(self.rendezvous.folder().join(WARNED)).is_err() {
            return;
        }
        self.deadline.warn(&format!(
            "forebay: WARNING: node {} has {} to drain and at this rate will not be ready by the job's time limit: \
             about {missing_s} s are missing. It gives way to nobody any more; \
             what is left then is drained after the job",
            self.host,
            model::size::display(status.bytes_left),
        ));
    }
}
