//! A namespace as somebody sees it, and what of the table that is.

use model::Token;
use model::phase::AccessMode;

/// A namespace, as somebody sees it.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    /// The session whose instance it is in.
    pub token: Token,
    /// Which namespace.
    pub access_mode: AccessMode,
    /// Only stages of this user; `None`: all.
    pub owner: Option<u32>,
}

impl Space {
    /// What of it is seen: `?1` is the token, `?2` the access mode, `?3` the owner.
    pub(super) fn seen(&self) -> &'static str {
        match self.owner {
            Some(_) => "token = ?1 AND access_mode = ?2 AND owner_uid = ?3",
            None => "token = ?1 AND access_mode = ?2 AND ?3 IS NULL",
        }
    }
}

/// Of a folder and all below it; `?4` is the folder. All names that begin with `path/` are from `path/` to before
/// `path0`, which is the next character.
pub(super) fn below(folder: &str) -> &'static str {
    match folder {
        "" => "?4 = ''",
        _ => {
            "buffer_path >= ?4 AND buffer_path < ?4 || '0' AND (buffer_path = ?4 OR buffer_path >= ?4 || '/')"
        }
    }
}
