//! The end of a stage that is forgotten: what killed workers left of it on the PFS is removed first, while its journal still
//! knows where that is.

use std::path::Path;
use std::time::Duration;

use daemon::logging::last_words;

use super::worker::{self, Errand};

/// How long that may take: whoever ends the stage waits for it.
const CLEAR_WITHIN: Duration = Duration::from_secs(10);

/// Removes what is left of the stage that is kept in `folder`, if it has a journal. What cannot be removed is named in the log.
pub async fn clear(program: &Path, folder: &Path) {
    // One that cannot be looked at may be there.
    if matches!(disk::exists(&folder.join("journal")), Ok(false)) {
        return;
    }
    let outcome = match worker::start(program, folder, Errand::Clear) {
        Err(error) => Err(error.to_string()),
        Ok(mut worker) => {
            let ended = worker.ended_within(CLEAR_WITHIN).await;
            ended.then_some(()).ok_or_else(|| {
                last_words(&folder.join("log")).unwrap_or_else(|| "the PFS does not answer".to_owned())
            })
        }
    };
    if let Err(why) = outcome {
        tracing::warn!(
            "remove what killed workers of the stage in {} left on the PFS: {why}; files `.forebay.*.part` below its \
             destination may be removed",
            folder.display()
        );
    }
}
