//! The drainer's own folder, on the node.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;

/// Makes the drainer's folder `state` of who drains `from`, if it is missing. It and all in it are reached by their
/// names: nobody else may be able to put a link there.
///
/// # Errors
/// It cannot be made, or somebody else could.
pub fn make(from: &Path, state: &Path) -> anyhow::Result<()> {
    let me = rustix::process::geteuid();
    let of_another = |path: &Path, owner: u32| {
        format!(
            "{} belongs to user {owner}, who could lead this drainer elsewhere by links: run it as that user, or give \
             it another folder of its own (--state)",
            path.display()
        )
    };
    if me.is_root() {
        let found = std::fs::metadata(from).with_context(|| format!("look at {}", from.display()))?;
        anyhow::ensure!(found.uid() == 0, of_another(from, found.uid()));
    }
    let made = if me.is_root() { must_be_roots(state, 0)? } else { 0 };
    std::fs::create_dir_all(state).with_context(|| format!("make the folder {}", state.display()))?;
    if me.is_root() {
        // Somebody else may have made one of them meanwhile.
        must_be_roots(state, made)?;
    }
    let found = std::fs::symlink_metadata(state).with_context(|| format!("look at {}", state.display()))?;
    anyhow::ensure!(found.is_dir(), "{} is not a folder but a link or a file: move it away", state.display());
    anyhow::ensure!(found.uid() == me.as_raw(), of_another(state, found.uid()));
    Ok(())
}

/// What is in the folder that `state` is in, or is made in, and in so many folders above that, only root may rename.
/// Gives how many folders above it are missing.
fn must_be_roots(state: &Path, above: usize) -> anyhow::Result<usize> {
    const OTHERS_MAY: u32 = 0o022;
    const BUT_THEIR_OWN_ONLY: u32 = 0o1000;
    let whole = std::path::absolute(state).with_context(|| format!("look for {}", state.display()))?;
    let is_missing = |folder: &&Path| disk::exists(folder).is_ok_and(|there| !there);
    let missing = whole.ancestors().skip(1).take_while(is_missing).count();
    for folder in whole.ancestors().skip(1 + missing).take(1 + above) {
        let found = std::fs::metadata(folder).with_context(|| format!("look at {}", folder.display()))?;
        let is_roots = found.uid() == 0
            && (found.mode() & OTHERS_MAY == 0 || found.mode() & BUT_THEIR_OWN_ONLY == BUT_THEIR_OWN_ONLY);
        anyhow::ensure!(
            is_roots,
            "others than root may rename what is in {}, and lead this drainer elsewhere by links: run it as its user, \
             or give it a folder of its own where only root may (--state)",
            folder.display()
        );
    }
    Ok(missing)
}
