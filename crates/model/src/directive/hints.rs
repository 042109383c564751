//! Options that say how an instance may be made faster, fairer or gentler to flash, and not what a job gets: scripts of
//! DataWarp sites have them. They are accepted. What has no effect here is told, so that nobody counts on it.

use super::{AccessModeRequest, CreatePersistent, Directive, JobDw, RequestedMode, Script};

/// Options of `jobdw`, by Cray's manual S-2558.
pub(super) const OPTIONS: [&str; 9] = [
    "optimization_strategy",
    "write_window_length",
    "write_window_multiplier",
    "modified_threshold",
    "read_ahead",
    "sync_on_close",
    "sync_to_pfs",
    "MFS",
    "MFC",
];

/// Whether a modifier of an access mode is one.
pub(super) fn is_modifier(name: &str, value: &str) -> bool {
    match name {
        "client_cache" => matches!(value, "yes" | "no"),
        "MFS" | "MFC" => true,
        _ => false,
    }
}

/// Those of a script that have no effect here, as they are written, each once.
pub fn hints(script: &Script) -> Vec<String> {
    let mut hints = Vec::new();
    for hint in script.directives.iter().flat_map(|located| of(&located.directive)) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

fn of(directive: &Directive) -> Vec<String> {
    match directive {
        Directive::JobDw(JobDw { options, access_modes, .. }) => {
            let options = options.iter().map(|(name, value)| format!("{name}={value}"));
            options.chain(of_modes(access_modes)).collect()
        }
        Directive::CreatePersistent(CreatePersistent { access_modes, .. }) => {
            of_modes(access_modes).collect()
        }
        _ => Vec::new(),
    }
}

fn of_modes(modes: &[AccessModeRequest]) -> impl Iterator<Item = String> {
    let balanced = modes.iter().any(|request| request.mode == RequestedMode::Ldbalance);
    let modifiers = modes.iter().flat_map(|request| &request.modifiers);
    let hints = modifiers.filter(|(name, value)| is_modifier(name, value));
    let hints = hints.map(|(name, value)| format!("{name}={value}"));
    balanced.then(|| "access_mode=ldbalance".to_owned()).into_iter().chain(hints)
}
