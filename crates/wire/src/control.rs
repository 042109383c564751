//! The control service's API: HTTP with JSON bodies, on a unix socket (`control.sock` in the state folder) and, on a
//! cluster, over TCP with a MUNGE credential in each request.
//!
//! Who may ask for what: the operator (root, the service's own user, `admin_users`) for everything; a workload manager
//! (`wlm_users`) for everything in an owner's name; an owner for what is his. Sessions of others are not shown.
//!
//! Every life-cycle function is `POST /v1/sessions/{token}/FUNCTION`, is idempotent, is serialised per token, and goes
//! on when the caller goes away: a second caller of the same function joins the first. The reply comes when the
//! function is done; progress meanwhile is `GET /v1/sessions/{token}`.
//!
//! | request | body | reply |
//! |---|---|---|
//! | `POST /v1/job_process` | [`JobProcess`] | [`JobSummary`] |
//! | `POST /v1/tokens` | `{}` | [`NewToken`] |
//! | `POST /v1/sessions/{token}/setup` | [`Setup`] | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/data_in` | `{}` | [`SessionStatus`] |
//! | `GET  /v1/sessions/{token}/paths` | | [`Paths`] |
//! | `POST /v1/sessions/{token}/pre_run` | [`PreRun`] | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/post_run` | [`PostRun`] | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/data_out` | `{}` | [`SessionStatus`] |
//! | `POST /v1/sessions/{token}/teardown` | [`Teardown`] | [`TeardownReply`] |
//! | `GET  /v1/sessions/{token}/real_size` | | [`RealSize`] |
//! | `POST /v1/sessions/{token}/cancel` | `{}` | [`SessionStatus`]: stops a running `data_in` or `data_out` |
//! | `POST /v1/sessions/{token}/scrub` | [`crate::node::ScrubSpec`] | [`crate::node::ScrubStatus`], at once: of all nodes together |
//! | `POST /v1/sessions/{token}/rekey` | `{}` | [`Rekeyed`]; `key_in_use` while a stage runs; anew when repeated |
//! | `GET  /v1/sessions/{token}/scrub` | | [`crate::node::ScrubStatus`] |
//! | `POST /v1/sessions/{token}/fsck` | [`crate::node::FsckSpec`] | [`crate::node::FsckReport`] |
//! | `GET  /v1/sessions/{token}` | | [`SessionStatus`] |
//! | `GET  /v1/status` | | [`Status`] |
//! | `POST /v1/persistent` | [`CreatePersistent`] | [`SessionStatus`], whose token is the name |
//! | `POST /v1/persistent/{name}/mount` | [`MountPersistent`] | [`SessionStatus`], whose teardown unmounts |
//! | `GET  /v1/objects` | | [`Objects`] |
//! | `GET  /v1/pools` | | a list of [`PoolStatus`], the default pool first |
//! | `POST /v1/nodes` | [`RegisterNode`] | [`Registered`]: a node says that it is there |
//! | `POST /v1/nodes/{name}/drain` | [`Drain`] | [`NodeStatus`] |
//! | `POST /v1/nodes/{name}/resume` | `{}` | [`NodeStatus`] |
//! | `DELETE /v1/nodes/{name}` | | `{}`: forgets a node that is offline and holds nothing |
//! | `POST /v1/shutdown` | `{}` | [`ShutdownReply`]: stops nodes and control if nothing is mounted or running |
//! | `POST /v1/stages…` | | stages on demand: see `control/on_demand.rs` |
//! | `GET  /metrics` | | text, for Prometheus |

mod allocation;
mod functions;
mod lost;
mod nodes;
mod objects;
mod on_demand;
pub mod one_machine;
mod status;

pub use crate::error::{ApiError, Blame};
pub use crate::error_code::ErrorCode;
pub use crate::node::VolumeKind;
pub use crate::owner::Owner;
pub use crate::stages::{
    FileFailure, Remark, Side, StageNotes, StagePair, StageProgress, StageStatus, Stall,
};
pub use allocation::{AllocatedHost, Allocation, Attended};
pub use functions::{
    CLI, CreatePersistent, DataOut, JobProcess, JobSummary, MountPersistent, NewToken, Paths, PostRun,
    PreRun, RealSize, Rekeyed, SLURM, Script, Setup, Teardown, TeardownReply,
};
pub use lost::{AtRisk, Damaged, GiveUp, GivenUp, Lost, Moved};
pub use nodes::{Drain, KnownPart, NodeRole, NodeStatus, RegisterNode, Registered, ShutdownReply};
pub use objects::{
    ActivationObject, ConfigurationObject, FragmentObject, Goal, InstanceObject, ObjectState, Objects,
    RegistrationObject, SessionObject,
};
pub use on_demand::{
    BufferStatus, Change, FailedStage, PAIRS_MAX, Place, StageChange, StageConcurrency, StageCounts,
    StageDue, StageQuery, StageRequest, StageScope, StageTickets,
};
pub use status::{ActivationStatus, InstanceStatus, PersistentStatus, PoolStatus, SessionStatus, Status};
