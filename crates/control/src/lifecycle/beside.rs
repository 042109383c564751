//! Several mounts of one namespace on one node, for who asks: each is a mount of its own, at a place of its own.
//!
//! **Invariant:** a mount that has its namespace for itself (it keeps names, pages and locks) is never joined by
//! another.

use std::path::Path;

use daemon::error::user;
use wire::control::{ApiError, ErrorCode};

use crate::state::activations::Activation;

/// How a mount stands to the others of its namespace and node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// See [`Activation::ordinal`].
    pub ordinal: u32,
    /// See [`Activation::shared`].
    pub shared: bool,
}

/// The standing of a mount at `place`, where `known` are those of its namespace and node; `shared`: others are to be
/// possible beside it.
///
/// # Errors
/// One that is mounted has the namespace for itself.
pub(crate) fn standing(place: &Path, known: &[&Activation], shared: bool) -> Result<Standing, ApiError> {
    let former = known.iter().find(|old| old.mountpoint == place);
    if let Some(Activation { mounted: true, ordinal, shared, .. }) = former {
        return Ok(Standing { ordinal: *ordinal, shared: *shared });
    }
    let mut others = known.iter().filter(|old| old.mounted);
    if let Some(alone) = others.clone().find(|old| !old.shared) {
        let alone = alone.mountpoint.display();
        return Err(user(
            ErrorCode::MountedAlone,
            format!("the buffer is mounted already, at {alone}, for that mount alone"),
            format!(
                "to have it at several places, unmount {alone} and mount it with --shared, then at the others"
            ),
        ));
    }
    let is_free = |ordinal: &u32| others.clone().all(|old| old.ordinal != *ordinal);
    let ordinal = (0..).find(is_free).expect("fewer mounts than numbers");
    Ok(Standing { ordinal, shared: shared || others.next().is_some() })
}

#[cfg(test)]
mod tests {
    use model::NodeName;
    use model::phase::AccessMode;

    use super::*;

    fn at(place: &str, ordinal: u32, shared: bool, mounted: bool) -> Activation {
        Activation {
            buffer: model::buffer::BufferRef::Own,
            access_mode: AccessMode::Striped,
            node: NodeName::literal("n0"),
            ordinal,
            shared,
            mountpoint: place.into(),
            mounted,
            interruptions: 0,
        }
    }

    #[test]
    fn only_mounts_that_keep_nothing_for_themselves_stand_beside_each_other() {
        let (first, second) = (at("/a", 0, true, true), at("/b", 1, true, true));
        let of = |place: &str, known: &[&Activation], shared| {
            standing(Path::new(place), known, shared).map(|found| (found.ordinal, found.shared))
        };
        assert_eq!(of("/a", &[], false).unwrap(), (0, false));
        assert_eq!(of("/b", &[&first], false).unwrap(), (1, true));
        assert_eq!(of("/b", &[&first, &second], false).unwrap(), (1, true), "the call is repeated");
        assert_eq!(of("/c", &[&second], false).unwrap(), (0, true));
        assert_eq!(of("/c", &[&at("/a", 0, false, false)], false).unwrap(), (0, false));
        let refused = of("/b", &[&at("/a", 0, false, true)], true).unwrap_err();
        assert!(refused.message.contains("/a") && refused.advice.contains("--shared"), "{refused:?}");
    }
}
