//! The kinds of error, each with the stable name that programs know it by.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal,)*) => {
        /// What kind of error an [`ApiError`](crate::control::ApiError) is. It crosses as its name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`")] $(#[doc = ""] #[$doc])* $code,)*
            /// One that this release does not make: another one's, whose name goes on as it came.
            Unknown(Box<str>),
        }

        impl ErrorCode {
            #[cfg(test)]
            const ALL: &[ErrorCode] = &[$(ErrorCode::$code),*];

            /// Its name, as programs read it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(ErrorCode::$code => $name,)*
                    ErrorCode::Unknown(name) => name,
                }
            }
        }

        impl FromStr for ErrorCode {
            type Err = Infallible;

            fn from_str(name: &str) -> Result<ErrorCode, Infallible> {
                Ok(match name {
                    $($name => ErrorCode::$code,)*
                    other => ErrorCode::Unknown(other.into()),
                })
            }
        }
    };
}

impl ErrorCode {
    /// What was asked for is not there.
    pub fn is_absence(&self) -> bool {
        use ErrorCode::{
            NoSuchBuffer, NoSuchFragment, NoSuchMount, NoSuchNode, NoSuchRole, NoSuchRoute, NoSuchSession,
            NoSuchStage,
        };
        matches!(
            self,
            NoSuchBuffer
                | NoSuchFragment
                | NoSuchMount
                | NoSuchNode
                | NoSuchRole
                | NoSuchRoute
                | NoSuchSession
                | NoSuchStage
        )
    }
}

error_codes! {
    AllLost = "all_lost",
    BadDirective = "bad_directive",
    BadFragments = "bad_fragments",
    BadId = "bad_id",
    BadInstanceId = "bad_instance_id",
    BadMountpoint = "bad_mountpoint",
    BadName = "bad_name",
    BadNode = "bad_node",
    BadRequest = "bad_request",
    BadScript = "bad_script",
    BadStage = "bad_stage",
    BadToken = "bad_token",
    BufferFull = "buffer_full",
    BufferInUse = "buffer_in_use",
    BufferUnreachable = "buffer_unreachable",
    Cancelled = "cancelled",
    CheckPanicked = "check_panicked",
    EarlyStage = "early_stage",
    FragmentBroken = "fragment_broken",
    FragmentNotCreated = "fragment_not_created",
    FragmentNotGivenUp = "fragment_not_given_up",
    FragmentNotRemoved = "fragment_not_removed",
    /// A node has a fragment of another instance with the same id, as its key says: one that control knew before its
    /// database was lost. It is neither used nor removed.
    FragmentOfAnother = "fragment_of_another",
    /// A node does not know yet whether it can serve a fragment: asking again helps.
    FragmentStarting = "fragment_starting",
    FunctionLost = "function_lost",
    FunctionPanicked = "function_panicked",
    Garbled = "garbled",
    Kept = "kept",
    /// A node has later keys of a buffer than control: its database is a copy from before a change.
    KeyBehind = "key_behind",
    /// Stages run with what was made of the key that is to be changed.
    KeyInUse = "key_in_use",
    KeyNotChanged = "key_not_changed",
    /// A volume is neither here nor gone.
    LocalAway = "local_away",
    LocalDiffers = "local_differs",
    LocalInUse = "local_in_use",
    LocalLost = "local_lost",
    LocalPanicked = "local_panicked",
    LocalRootDiffers = "local_root_differs",
    LocalVolume = "local_volume",
    LookupPanicked = "lookup_panicked",
    LostPanicked = "lost_panicked",
    Metrics = "metrics",
    MirrorLacks = "mirror_lacks",
    MirrorLost = "mirror_lost",
    MirrorNeedsNodes = "mirror_needs_nodes",
    MirrorNodeLocal = "mirror_node_local",
    MirrorPrivate = "mirror_private",
    MountDeleted = "mount_deleted",
    MountDiffers = "mount_differs",
    MountFailed = "mount_failed",
    MountLost = "mount_lost",
    MountNotTold = "mount_not_told",
    MountedAlone = "mounted_alone",
    MungePanicked = "munge_panicked",
    NameTaken = "name_taken",
    NamespaceNotAdded = "namespace_not_added",
    NoCaller = "no_caller",
    NoCapacity = "no_capacity",
    NoCluster = "no_cluster",
    NoDestination = "no_destination",
    NoDirectives = "no_directives",
    NoDisk = "no_disk",
    NoHosts = "no_hosts",
    NoInstance = "no_instance",
    NoLocals = "no_locals",
    NoManager = "no_manager",
    NoMunge = "no_munge",
    NoProof = "no_proof",
    NoRandom = "no_random",
    NoRoom = "no_room",
    NoSpace = "no_space",
    NoSpareNode = "no_spare_node",
    NoStorage = "no_storage",
    NoSuchBuffer = "no_such_buffer",
    /// A node does not have a fragment that was made on it.
    NoSuchFragment = "no_such_fragment",
    NoSuchMount = "no_such_mount",
    NoSuchNode = "no_such_node",
    NoSuchRole = "no_such_role",
    NoSuchRoute = "no_such_route",
    NoSuchSession = "no_such_session",
    NoSuchStage = "no_such_stage",
    /// A node does not answer.
    NodeAbsent = "node_absent",
    NodeAnswers = "node_answers",
    NodeDisk = "node_disk",
    NodeDoesNotEnd = "node_does_not_end",
    NodeGarbled = "node_garbled",
    NodeInUse = "node_in_use",
    /// A node is of a release that does not know an option of the pool.
    NodeTooOld = "node_too_old",
    NotAllowed = "not_allowed",
    NotAuthenticated = "not_authenticated",
    NotBuilt = "not_built",
    NotControl = "not_control",
    NotDrained = "not_drained",
    NotMirrored = "not_mirrored",
    NotPersistent = "not_persistent",
    NotTakenUp = "not_taken_up",
    NotYours = "not_yours",
    NothingLost = "nothing_lost",
    OneMountpoint = "one_mountpoint",
    OtherNodes = "other_nodes",
    PartNotServed = "part_not_served",
    PartThere = "part_there",
    PfsNotMounted = "pfs_not_mounted",
    PoolFull = "pool_full",
    PoolTooSmall = "pool_too_small",
    PrivateStage = "private_stage",
    Refused = "refused",
    Released = "released",
    RequestPanicked = "request_panicked",
    SourceUnreadable = "source_unreadable",
    StageDestination = "stage_destination",
    StageDiffers = "stage_differs",
    /// Files of a stage failed, one by one: they, or their copies, could not be read or made.
    StageFailed = "stage_failed",
    StageGoing = "stage_going",
    StageIdentity = "stage_identity",
    StageJournal = "stage_journal",
    StageList = "stage_list",
    StageManifest = "stage_manifest",
    /// Names that a stage made could not be synced: its worker is to be run again, which looks at all of them.
    StageNamesUnsynced = "stage_names_unsynced",
    StageNotStarted = "stage_not_started",
    StagePanicked = "stage_panicked",
    StagePath = "stage_path",
    StageSession = "stage_session",
    StageSource = "stage_source",
    /// A stage's source was removed from the buffer after the stage was asked for: nothing is left that could be owed.
    StageSourceRemoved = "stage_source_removed",
    StageState = "stage_state",
    StageUnverified = "stage_unverified",
    StageWorkerBroken = "stage_worker_broken",
    StageWorkerKilled = "stage_worker_killed",
    StateDatabase = "state_database",
    StatePanicked = "state_panicked",
    Stopping = "stopping",
    StorePanicked = "store_panicked",
    TooLarge = "too_large",
    TooManyConnections = "too_many_connections",
    TooManyStages = "too_many_stages",
    UnknownPool = "unknown_pool",
    UnknownUser = "unknown_user",
    UnmountFailed = "unmount_failed",
    Unplanned = "unplanned",
    Unreachable = "unreachable",
    WrongKind = "wrong_kind",
    WrongPhase = "wrong_phase",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ErrorCode, D::Error> {
        let Ok(code) = Box::<str>::deserialize(deserializer)?.parse();
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn crossed(code: &ErrorCode) -> ErrorCode {
        serde_json::from_str(&serde_json::to_string(code).unwrap()).unwrap()
    }

    #[test]
    fn every_code_crosses_as_a_name_of_its_own() {
        for code in ErrorCode::ALL {
            assert_eq!(crossed(code), *code);
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
        }
        let names: BTreeSet<&str> = ErrorCode::ALL.iter().map(ErrorCode::as_str).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
    }

    #[test]
    fn a_code_is_named_as_its_variant() {
        for code in ErrorCode::ALL {
            let joined: String = code.as_str().split('_').collect();
            assert_eq!(joined, format!("{code:?}").to_lowercase());
        }
    }

    #[test]
    fn what_is_not_there_is_told_from_all_else() {
        for code in ErrorCode::ALL {
            assert_eq!(code.is_absence(), code.as_str().starts_with("no_such_"), "{code}");
        }
    }

    #[test]
    fn what_another_release_calls_its_errors_goes_on_as_it_came() {
        let unknown = ErrorCode::Unknown("quota_on_mars".into());
        assert_eq!(crossed(&unknown), unknown);
        assert_eq!(unknown.to_string(), "quota_on_mars");
    }
}
