//! The keys of a fragment that is served are changed.
//!
//! **Invariant:** what a node takes after a restart is what it said that it takes: the change is kept first.

use std::path::Path;
use std::time::{Duration, Instant};

use wire::control::{ApiError, ErrorCode};
use wire::data::hello::Key;
use wire::node::FragmentSpec;

use super::{POISON, Server};
use crate::copies::Copies;
use crate::fragment::{Fragment, FragmentError, specification};

/// How long what was asked for with a former key may take to end.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at that.
const PAUSE: Duration = Duration::from_millis(5);

impl Server {
    /// Takes and shows the keys that the specification names from now on, if that is a later step than is known here.
    /// Where one is not taken any more all connections are ended, and what was asked for over them: whoever has a
    /// credential of the other comes again.
    pub(super) fn rekey(
        &self,
        folder: &Path,
        fragment: &Fragment,
        spec: &FragmentSpec,
    ) -> Result<(), ApiError> {
        if spec.key_step <= fragment.keys().step() {
            return self.check_in_touch(folder, spec);
        }
        let shown = keep(folder, spec).map_err(|error| {
            self.cannot(ErrorCode::KeyNotChanged, "change the key of", &spec.instance, &error)
        })?;
        let copies = self.copies.read().expect(POISON).get(&spec.instance).cloned();
        let other = Key::from_hex(&spec.other_key);
        let mut is_one_dropped = false;
        for keys in std::iter::once(fragment.keys()).chain(copies.iter().map(|copies| copies.keys())) {
            is_one_dropped |= keys.change(shown.clone(), other.clone(), spec.key_step);
        }
        // Not only in the last step: a node that was away then hears of the first of the next change.
        tracing::info!(instance = ?spec.instance, step = spec.key_step, "changed the keys of a fragment");
        if !is_one_dropped {
            return Ok(());
        }
        fragment.connections().end_all();
        copies.iter().for_each(|copies| copies.end_all());
        self.wait_for_ended(spec, || is_served(fragment, copies.as_deref()))
    }

    /// What was asked for before a connection was ended may change something still.
    fn wait_for_ended(&self, spec: &FragmentSpec, is_served: impl Fn() -> bool) -> Result<(), ApiError> {
        let begun = Instant::now();
        while is_served() {
            if begun.elapsed() > ENDED_WITHIN {
                return Err(self.still_asked(spec));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Control may be late, and ask for what was changed since. Where its database is a copy from before a change it
    /// knows no key that is taken here, or would change this one to another in the same step.
    ///
    /// # Errors
    /// That is so.
    pub(super) fn check_in_touch(&self, folder: &Path, spec: &FragmentSpec) -> Result<(), ApiError> {
        let kept = specification::read(folder).map_err(|error| {
            self.cannot(ErrorCode::KeyNotChanged, "read the key of", &spec.instance, &error)
        })?;
        match kept {
            Some(kept) if spec.key_step <= kept.key_step && !kept.is_in_touch_with(spec) => {
                Err(self.key_behind(spec, kept.key_step))
            }
            _ => Ok(()),
        }
    }
}

/// Whether something is done still for a connection that was ended.
fn is_served(fragment: &Fragment, copies: Option<&Copies>) -> bool {
    fragment.connections().are_ended_served() || copies.is_some_and(Copies::are_ended_served)
}

/// Keeps the keys for the next start; the one that is shown.
pub(super) fn keep(folder: &Path, spec: &FragmentSpec) -> Result<Key, FragmentError> {
    let shown = Key::from_hex(&spec.key).ok_or(FragmentError::Key)?;
    let path = specification::path_of(folder);
    let kept = specification::read(folder)?.ok_or(FragmentError::NoSpecification { path })?;
    let (key, other_key) = (spec.key.clone(), spec.other_key.clone());
    specification::write(folder, &FragmentSpec { key, other_key, key_step: spec.key_step, ..kept })?;
    Ok(shown)
}
