//! What a machine of one user's own lacks of a cluster, so that a script cannot ask it for that. Its control refuses
//! it, and `forebay check`, which starts none, in the same words.

use model::Token;
use model::directive::{Directive, JobDw, Script, namespaces};
use model::phase::{AccessMode, Redundancy};

use crate::error::{ApiError, Blame};
use crate::error_code::ErrorCode;

/// The one pool: the disk that the state folder is on.
pub const POOL: &str = "local";

/// What a script asks for and one machine does not have, each with its line.
pub fn refusals(script: &Script) -> Vec<(u32, ApiError)> {
    let of = |directive: &Directive| match directive {
        Directive::JobDw(job) => of_job(job),
        Directive::CreatePersistent(create) => {
            unknown(create.pool.as_deref()).into_iter().chain([no_manager()]).collect()
        }
        Directive::DestroyPersistent { .. } => vec![no_manager()],
        Directive::PersistentDw { name } => vec![no_persistent(name)],
        Directive::StageIn(_) | Directive::StageOut(_) | Directive::Swap { .. } => Vec::new(),
    };
    let located = script.directives.iter();
    located.flat_map(|it| of(&it.directive).into_iter().map(|error| (it.line, error))).collect()
}

fn of_job(job: &JobDw) -> Vec<ApiError> {
    let is_private = namespaces(&job.access_modes).into_iter().any(|mode| mode == AccessMode::Private);
    let is_mirror = job.behaviour.redundancy == Redundancy::Mirror;
    let mirror = (is_private && is_mirror).then(no_private_mirror);
    unknown(job.pool.as_deref()).into_iter().chain(mirror).collect()
}

fn unknown(pool: Option<&str>) -> Option<ApiError> {
    pool.filter(|name| *name != POOL).map(|name| unknown_pool(name, &[POOL]))
}

/// Of `#BB` lines.
pub fn no_manager() -> ApiError {
    user(
        ErrorCode::NoManager,
        "#BB lines create and destroy persistent buffers, which only a cluster has; this is a single machine"
            .into(),
        "remove the #BB lines, or submit the script to a cluster with sbatch".into(),
    )
}

/// Of a persistent buffer that is not there.
pub fn no_persistent(name: &Token) -> ApiError {
    user(
        ErrorCode::NoSuchBuffer,
        format!("there is no persistent buffer {name}"),
        format!(
            "create it first, on the cluster, in a job of its own: `#BB create_persistent name={name} capacity=10GiB \
             access_mode=striped type=scratch`; one machine has no persistent buffers"
        ),
    )
}

/// Of a pool that is none of those that there are.
pub fn unknown_pool(name: &str, pools: &[&str]) -> ApiError {
    user(
        ErrorCode::UnknownPool,
        format!("there is no pool {name} here"),
        format!("write pool={} or leave it out", pools.join(" or pool=")),
    )
}

/// Of two copies of what is on one node.
pub fn no_private_mirror() -> ApiError {
    user(
        ErrorCode::MirrorPrivate,
        "redundancy=mirror is not possible with access_mode=private: such a buffer ends with its node".into(),
        "leave redundancy= out, or ask for access_mode=striped in a pool of storage nodes".into(),
    )
}

fn user(code: ErrorCode, message: String, advice: String) -> ApiError {
    ApiError { code, blame: Blame::User, message, advice }
}

#[cfg(test)]
mod tests {
    use model::directive;
    use model::symbols::Symbols;

    use super::*;

    #[test]
    fn what_a_cluster_has_is_refused_line_by_line_and_what_one_machine_has_is_not() {
        let of = |text: &str| {
            let (script, errors) = directive::understood(text, &Symbols::default());
            assert!(errors.is_empty(), "{errors:?}");
            refusals(&script).into_iter().map(|(line, error)| (line, error.code)).collect::<Vec<_>>()
        };
        let job = "#DW jobdw type=scratch access_mode=striped,private capacity=1GiB";
        assert_eq!(of(&format!("#!/bin/sh\n{job} pool=local\n")), []);
        assert_eq!(
            of(&format!("#!/bin/sh\n{job} pool=gold redundancy=mirror\n#DW persistentdw name=a\n")),
            [(2, ErrorCode::UnknownPool), (2, ErrorCode::MirrorPrivate), (3, ErrorCode::NoSuchBuffer)]
        );
        let made = "#BB create_persistent name=a capacity=1GiB pool=gold\n#BB destroy_persistent name=b\n";
        let refused = [(1, ErrorCode::UnknownPool), (1, ErrorCode::NoManager), (2, ErrorCode::NoManager)];
        assert_eq!(of(made), refused);
    }
}
