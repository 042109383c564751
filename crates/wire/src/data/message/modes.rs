//! How requests treat what is there already.

use serde::{Deserialize, Serialize};

/// What a rename does with a name that exists at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameMode {
    /// It is replaced.
    Replace,
    /// The rename fails with EEXIST.
    NoReplace,
    /// Both names are swapped.
    Exchange,
}

/// Whether an extended attribute may, must or must not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// It may.
    Any,
    /// It must not (`XATTR_CREATE`).
    Create,
    /// It must (`XATTR_REPLACE`).
    Replace,
    /// It may; an access list, set by somebody who loses set-group-id by it.
    DropSetGid,
}

/// What `fallocate` does with a range of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocateMode {
    /// Reserves space; grows the object to the range's end.
    Grow,
    /// Reserves space; keeps the object's length.
    KeepSize,
    /// Frees the range, which then reads as zeros.
    PunchHole,
    /// Makes the range read as zeros; keeps the object's length.
    Zero,
}
