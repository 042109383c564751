//! What is said at the rendezvous of a node whose drainer does not run yet, or could not start: whoever waits for all
//! nodes of a job counts that node, and hears why.
//!
//! **Invariant:** a start that is refused has a file of its own. It takes the place of no drainer's word; whoever reads
//! both finds which is the last one about a folder.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use daemon::lock::LockError;

use crate::bound::whole;
use crate::mounted::Pfs;
use crate::namesake::{Own, is_running, machine, short_hash};
use crate::rendezvous::Rendezvous;
use crate::settings::Settings;
use crate::status::{SILENCE_MAX, Status, Trouble, now_ms};

/// That a drainer is about to run has been said.
pub(crate) struct Word {
    /// What was there in its place.
    before: Option<Status>,
}

/// Says that a drainer is about to run, where no other folder's word is in the way.
pub(crate) fn begin(settings: &Settings) -> io::Result<Word> {
    let (own, rendezvous) = (Own::at(&settings.from), Rendezvous::new(settings.rendezvous()));
    let before = rendezvous.last_of(&settings.host())?;
    let said = match &before {
        Some(last) if own.succeeds(last) => {
            let Own { from, folder, machine } = own;
            let (pid, updated_ms) = (std::process::id(), now_ms());
            Status { from, folder, machine, pid, updated_ms, ended: false, settled: false, ..last.clone() }
        }
        Some(last) if !last.is_over() => return Ok(Word { before }),
        _ => first(settings, own),
    };
    let before = match rendezvous.succeed(before.as_ref(), &said)? {
        true => before,
        // Another begins at this moment: whether that is in the way is looked at like any word that was there.
        false => rendezvous.last_of(&settings.host())?,
    };
    Ok(Word { before })
}

/// Says why no drainer could start, as [`refuse`]. After that, so that whoever lists what is said hears of this node in
/// any case, takes back that one was about to run: nobody waits for what does not.
pub(crate) fn refuse_after(word: Option<Word>, settings: &Settings, state: &Path, why: &str) {
    let before = word.map(|Word { before }| before);
    say_refused(settings, state, why, before.as_ref().and_then(Option::as_ref));
    let Some(before) = before else { return };
    let rendezvous = Rendezvous::new(settings.rendezvous());
    let put_back = || match (rendezvous.last_of(&settings.host())?, before) {
        (Some(last), _) if !is_of_this_process(&last) => Ok(()),
        (_, Some(before)) => rendezvous.publish(&before),
        (_, None) => rendezvous.remove_word(&settings.host()),
    };
    if let Err(error) = put_back() {
        tracing::warn!(
            "remove from {} the note that the drain begins: {error}",
            rendezvous.folder().display()
        );
    }
}

/// Whether this process has said it.
pub(crate) fn is_of_this_process(said: &Status) -> bool {
    said.pid == std::process::id() && said.machine == machine()
}

/// Says that the drainer of which `last` tells ends, as another's word has taken the place of its own.
pub(crate) fn give_way(rendezvous: &Rendezvous, last: Status, why: String) -> io::Result<()> {
    let own = Own::new(last.from.clone(), last.folder);
    let file = rendezvous.refusal_of(&last.host, identity_hash(&own));
    let advice =
        format!("start the drain of {} again, with a --host or a --session of its own", own.from.display());
    let trouble = Trouble { path: ".".to_owned(), errno: 0, message: why, advice };
    let failed = last.failed.max(1);
    rendezvous.write_refusal(&file, &Status { failed, troubles: vec![trouble], settled: false, ..last })
}

/// Says why no drainer whose folder is `state` could start, where that can be said; one that starts later takes it
/// back.
pub fn refuse(settings: &Settings, state: &Path, why: &str) {
    say_refused(settings, state, why, None);
}

/// `before` is the word that this process has replaced, if it has.
fn say_refused(settings: &Settings, state: &Path, why: &str, before: Option<&Status>) {
    if let Err(error) = try_refuse(settings, state, why, before) {
        tracing::warn!(
            "note in {} that the drain did not start: {error:#}; a wait for all nodes does not count this one",
            settings.rendezvous().display()
        );
    }
}

/// Whether `error` is that a drainer of the folder runs, which says itself how it is.
pub(crate) fn runs_already(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LockError::Held { .. }))
}

fn try_refuse(settings: &Settings, state: &Path, why: &str, before: Option<&Status>) -> anyhow::Result<()> {
    let owner = std::fs::metadata(&settings.from).map_or(0, |found| found.uid());
    let is_roots = !rustix::process::geteuid().is_root() || owner == 0;
    anyhow::ensure!(is_roots, "user {owner}'s own drainer could not write to what root makes there");
    anyhow::ensure!(
        !Pfs::is_away(state, &settings.to),
        "what {} was on is not mounted",
        settings.to.display()
    );
    Pfs::make_folder(&settings.to)?;
    let (own, rendezvous) = (Own::at(&settings.from), Rendezvous::new(settings.rendezvous()));
    rendezvous.make(&whole(&settings.to)?)?;
    // Where the last word cannot be read, it is no reason to say nothing.
    let last = rendezvous.last_of(&settings.host()).unwrap_or_default();
    let is_said = |last: &Status| match own.succeeds(last) {
        true => runs(last, &own),
        // Whoever started two drains on one node was told; that one is waited for.
        false => own.is_neighbour(last) && !last.is_over(),
    };
    if last.as_ref().filter(|last| !is_of_this_process(last)).or(before).is_some_and(is_said) {
        return Ok(());
    }
    let file = rendezvous.refusal_of(&settings.host(), identity_hash(&own));
    let trouble = Trouble {
        path: ".".to_owned(),
        errno: 0,
        message: format!("{}: the drain could not start: {why}", own.from.display()),
        advice: format!(
            "drain {} on that node (the start of the drain says more there), or remove {} if nothing is to be \
             drained there",
            own.from.display(),
            file.display()
        ),
    };
    let refused = Status { failed: 1, troubles: vec![trouble], ..first(settings, own) };
    Ok(rendezvous.write_refusal(&file, &refused)?)
}

/// Whether who said this may still run.
fn runs(last: &Status, own: &Own) -> bool {
    let has_gone = own.is_neighbour(last) && !is_running(last.pid);
    !last.ended && last.silence() <= SILENCE_MAX && !has_gone
}

/// Why `own` is not drained beside what its namesake `other` drains, and what to do.
pub(crate) fn in_the_way(other: &Status, own: &Own) -> String {
    let (from, to) = (other.from.display(), other.to.display());
    let by = match own.is_neighbour(other) {
        true if is_running(other.pid) => format!("process {}", other.pid),
        true => format!("process {}, which no longer runs,", other.pid),
        false => "another machine of that name".to_owned(),
    };
    let why = format!(
        "node {} already drains {from} to {to} in session {}: {by} last reported {} s ago that not all files are \
         there, and a node reports only one drain in a session",
        other.host,
        other.session,
        other.silence().as_secs()
    );
    let finish = format!(
        "wait for it (`forebay drain wait --to {to} --session {}`) and end it (`forebay drain stop --from {from}`)",
        other.session
    );
    let another = "start this drain with another --session";
    match own.is_neighbour(other) {
        true if is_running(other.pid) => format!("{why}; {finish}, or {another}"),
        true => format!("{why}; start the drain of {from} again, {finish}, or {another}"),
        false => format!(
            "{why}; give each machine a name of its own (--host), or wait for that drain (`forebay drain wait --to \
             {to} --session {}`) and end it there",
            other.session
        ),
    }
}

/// Takes back what was said of starts of `own`, on the node `host`, that were refused.
pub(crate) fn take_back(rendezvous: &Rendezvous, host: &str, own: &Own) {
    let is_own = |said: &Status| match (said.folder, own.folder) {
        (Some(said), Some(own)) => said == own,
        // A folder that was not there was a misspelt one.
        (None, Some(_)) if said.host == host && own.is_neighbour(said) => true,
        _ => said.from == own.from && (said.host == host || own.is_neighbour(said)),
    };
    let taken_back = |file: &Path| -> io::Result<()> {
        if rendezvous.refusal(file)?.as_ref().is_some_and(is_own) {
            disk::if_there(std::fs::remove_file(file))?;
        }
        Ok(())
    };
    let files = rendezvous.refusals().unwrap_or_else(|error| {
        tracing::warn!("look in {} for refused starts: {error}", rendezvous.folder().display());
        Vec::new()
    });
    for file in files {
        if let Err(error) = taken_back(&file) {
            tracing::warn!(
                "remove {}: {error}; a wait for all nodes still reports that start as refused",
                file.display()
            );
        }
    }
}

/// The same of a drainer that runs, as long as it does: only what is noted of its own folder under its own name, which
/// needs no look at what else there is.
pub(crate) fn take_back_own(rendezvous: &Rendezvous, host: &str, own: &Own) {
    let file = rendezvous.refusal_of(host, identity_hash(own));
    if let Err(error) = disk::remove_file(&file) {
        tracing::debug!("take back {}: {error}", file.display());
    }
}

/// Of the folder, whatever its path; of the path where nothing else is known.
pub(crate) fn identity_hash(own: &Own) -> u32 {
    let path = own.folder.is_none().then_some((&own.from, &own.machine));
    short_hash(&(own.folder, path))
}

fn first(settings: &Settings, own: Own) -> Status {
    let Own { from, folder, machine } = own;
    Status {
        host: settings.host(),
        session: settings.session(),
        pid: std::process::id(),
        machine,
        from,
        folder,
        to: whole(&settings.to).unwrap_or_else(|_| settings.to.clone()),
        updated_ms: now_ms(),
        ..Status::default()
    }
}
