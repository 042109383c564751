//! Which drain a ledger is of: one folder, one place on the PFS, one session.
//!
//! **Invariant:** what one drain has put on the PFS is never taken for what another owes. A ledger that is of another
//! is begun anew, and only where nothing is owed by it that the new one does not owe, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use daemon::lock::LockError;

use crate::alone::alone;
use crate::ledger::{Ledger, Of};
use crate::settings::Settings;
use crate::top::Top;
use crate::watch::Watch;

/// Why the drain of `settings` may not begin with the drainer's folder `state`, in which no drainer runs. `None`: it
/// may.
///
/// # Errors
/// A folder or the ledger cannot be read.
pub fn refusal(settings: &Settings, state: &Path) -> anyhow::Result<Option<String>> {
    let ledger = state.join("ledger");
    if !disk::exists(&ledger).with_context(|| format!("look for {}", ledger.display()))? {
        return Ok(None);
    }
    let _alone = match alone(&state.join("lock")) {
        // It looks itself.
        Err(LockError::Held { .. }) => return Ok(None),
        alone => alone?,
    };
    let (from, to, state) = (whole(&settings.from)?, whole_or_new(&settings.to)?, whole(state)?);
    owed_by_another(&Ledger::open(&state)?, &of(&state, &from, &to, &settings.session()), &state)
}

/// The ledger in the drainer's folder `state` of this drain.
///
/// # Errors
/// As of [`refusal`], and where that refuses.
pub(crate) fn open(state: &Path, from: &Path, to: &Path, session: &str) -> anyhow::Result<Ledger> {
    let state = whole(state)?;
    let asked = of(&state, from, to, session);
    let mut ledger = Ledger::open(&state)?;
    if let Some(why) = owed_by_another(&ledger, &asked, &state)? {
        bail!("{why}");
    }
    if ledger.of() != Some(&asked) {
        ledger.begin_anew(asked).with_context(|| format!("begin the ledger in {}", state.display()))?;
    }
    Ok(ledger)
}

fn of(state: &Path, from: &Path, to: &Path, session: &str) -> Of {
    let from = state.parent().and_then(|above| from.strip_prefix(above).ok()).unwrap_or(from);
    Of { from: from.to_owned(), to: to.to_owned(), session: session.to_owned() }
}

/// What the ledger's drain owes that `asked` would not bring to where it was to go.
fn owed_by_another(ledger: &Ledger, asked: &Of, state: &Path) -> anyhow::Result<Option<String>> {
    let Some(of) = ledger.of().filter(|of| (&of.from, &of.to) != (&asked.from, &asked.to)) else {
        return Ok(None);
    };
    let from: PathBuf = state.parent().unwrap_or(state).join(&of.from).components().collect();
    let mut owed = Vec::new();
    let top = Top::open(&from)
        .with_context(|| format!("open {}, which is drained to {}", from.display(), of.to.display()))?;
    let watch = Watch::open(Arc::new(top), state, &of.to).context("watch a folder (inotify)")?;
    let unseen = watch.walk(Path::new(""), &mut |path, seen| {
        let has_landed = || ledger.get(&path).is_some_and(|landed| landed.generation == seen.generation);
        if seen.kind.is_drained() && !has_landed() {
            owed.push(path);
        }
    });
    owed.extend(unseen.into_iter().map(|(path, _)| path));
    Ok(owed.first().map(|first| {
        format!(
            "{} is drained to {} in the session {}, and {} of its files are not there yet, as {}",
            from.display(),
            of.to.display(),
            of.session,
            owed.len(),
            from.join(first).display(),
        )
    }))
}

/// The same of one that a drainer makes, once it knows that the file system above it is there.
fn whole_or_new(folder: &Path) -> anyhow::Result<PathBuf> {
    match (folder.parent(), folder.file_name()) {
        (Some(above), Some(name)) if !disk::exists(folder).unwrap_or(true) => {
            Ok(whole(if above.as_os_str().is_empty() { Path::new(".") } else { above })?.join(name))
        }
        _ => whole(folder),
    }
}

/// The folder, by its path without links.
pub(crate) fn whole(folder: &Path) -> anyhow::Result<PathBuf> {
    let found = folder.canonicalize().with_context(|| format!("find the folder {}", folder.display()))?;
    if !disk::is_folder(&found).with_context(|| format!("look at {}", found.display()))? {
        bail!("{} is not a folder", folder.display());
    }
    Ok(found)
}
