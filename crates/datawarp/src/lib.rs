//! `libdatawarp.so.0`: the C functions that programs for Cray DataWarp call, answered by Forebay's control service.
//!
//! ```text
//! staging, querying, failures, tuning    the C functions, a file for each kind
//! foreign                                C strings, lists and results; nearly all that is unsafe
//! buffer                                 from a path to its buffer, and the calls of control
//! error                                  from what went wrong to an errno
//! ```
//!
//! The header is `include/datawarp.h`; `docs/libdatawarp.md` says what each function does and where DataWarp's differ.
//!
//! **Invariants:** no threads, no state, nothing printed: the calling program has its own. No panic leaves a function.

#![allow(unreachable_pub, reason = "C finds the functions by their names; no crate uses this one")]
#![expect(unsafe_code, reason = "functions that C programs call")]

mod buffer;
mod error;
mod failures;
mod foreign;
mod querying;
mod staging;
mod tuning;
