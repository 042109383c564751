//! The end of a stage that is forgotten: what killed workers left of it on the PFS is removed first, while its journal
//! still knows where that is.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use daemon::logging::last_words;

use super::worker::{Errand, Workers};

/// How long that may take: whoever ends the stage waits for it.
const CLEAR_WITHIN: Duration = Duration::from_secs(10);

/// Removes what is left of the stage that is kept in `folder`, if its journal does not say that nothing is. What cannot
/// be removed is named in the log.
pub(super) async fn clear(workers: &Workers, folder: &Path) {
    match may_have_left(&folder.join("journal")) {
        Ok(false) => return,
        Ok(true) => {}
        Err(error) => tracing::warn!("read the journal in {}: {error}", folder.display()),
    }
    let outcome = match workers.start(folder, Errand::Clear) {
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

/// Whether parts were made in a folder, and nobody has said since that none is left.
fn may_have_left(journal: &Path) -> io::Result<bool> {
    let file = match File::open(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let (mut reader, mut line, mut left) = (BufReader::new(file), Vec::new(), false);
    while reader.read_until(b'\n', &mut line)? > 0 {
        left = line.starts_with(b"{\"folder\"") || left && !line.starts_with(b"\"cleared\"");
        line.clear();
    }
    Ok(left)
}
