//! The doors of workload managers and of DataWarp's users: `dw_wlm_cli`, `dwstat` and `dwcli`.
//!
//! All three are small programs that ask the control service and end. They own what those commands print; nothing here
//! decides anything about a buffer.
//!
//! **Invariant:** no threads and no runtime: a workload manager starts one of them for each step of each job.

pub mod admin;
pub mod control;
pub mod endpoint;
pub mod http;
pub mod shim;
pub mod stat;
