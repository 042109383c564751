//! `create_persistent`: allocate a buffer that outlives jobs. Slurm checks none of its options, and takes only an
//! answer with the word `created` as a success.
//!
//! The site chooses whose jobs may use a buffer, and its pool on how many nodes it is, unless the access mode says
//! otherwise: `access_mode=striped(shared=no,redundancy=none)`.

use model::directive::{self, Capacity, Directive, ScriptError};
use model::symbols::Symbols;
use nix::unistd::{Uid, User};
use wire::control::{CreatePersistent, Owner, SessionStatus};

use super::answer::Answer;
use super::arguments::Arguments;
use api::control::Control;

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    create(arguments, control).unwrap_or_else(|failure| failure)
}

fn create(arguments: &Arguments, control: &Control) -> Result<Answer, Answer> {
    let owner = owner(*arguments.need(&arguments.user, "--user")?)?;
    let request = request(arguments, owner)?;
    control.post::<_, SessionStatus>("/v1/persistent", &request).map_err(Answer::failed)?;
    Ok(Answer::Done(format!("created {}", request.name)))
}

/// Slurm gives no group.
fn owner(uid: u32) -> Result<Owner, Answer> {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => Ok(Owner { uid, gid: user.gid.as_raw() }),
        Ok(None) => Err(Answer::failed(format!("user {uid} is not known on this machine"))),
        Err(error) => Err(Answer::failed(format!("look up user {uid}: {error}"))),
    }
}

fn request(arguments: &Arguments, owner: Owner) -> Result<CreatePersistent, Answer> {
    let capacity = arguments.need(&arguments.capacity, "--capacity")?;
    let (pool, bytes) =
        capacity.rsplit_once(':').map_or((None, capacity.as_str()), |(pool, bytes)| (Some(pool), bytes));
    let directive = parse(arguments, bytes)?;
    let Capacity::Bytes(capacity_bytes) = directive.capacity else {
        return Err(not_understood());
    };
    let (shared, redundancy) = (directive.shared(), directive.redundancy());
    Ok(CreatePersistent {
        name: directive.name.to_string(),
        owner,
        capacity_bytes,
        pool: pool.filter(|pool| !pool.is_empty()).map(str::to_owned),
        access_modes: directive::namespaces(&directive.access_modes),
        shared,
        redundancy,
        caller: super::setup::CALLER.to_owned(),
    })
}

/// The options as the user wrote them, checked as in a script.
fn parse(arguments: &Arguments, bytes: &str) -> Result<directive::CreatePersistent, Answer> {
    let option = |name: &str, value: &Option<String>| {
        value
            .as_deref()
            .filter(|value| !value.is_empty())
            .map(|value| format!(" {name}={value}"))
            .unwrap_or_default()
    };
    let line = format!(
        "#BB create_persistent name={} capacity={bytes}{}{}\n",
        arguments.token()?,
        option("access_mode", &arguments.access),
        option("type", &arguments.kind)
    );
    let parsed = directive::parse(&line.replace('%', "%%"), &Symbols::default());
    let parsed = parsed.map_err(|errors| refused(&errors.0))?;
    let unsupported = directive::unsupported(&parsed);
    if !unsupported.is_empty() {
        return Err(refused(&unsupported));
    }
    match parsed.directives.into_iter().next().map(|located| located.directive) {
        Some(Directive::CreatePersistent(create)) => Ok(create),
        _ => Err(not_understood()),
    }
}

/// The first mistake; where it stands in the line is not known any more.
fn refused(errors: &[ScriptError]) -> Answer {
    errors.first().map_or_else(not_understood, |error| Answer::failed(&error.message))
}

fn not_understood() -> Answer {
    Answer::failed("the request is not understood")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use model::phase::{AccessMode, Redundancy};

    fn asked(words: &str) -> Result<CreatePersistent, Answer> {
        let line = format!("dw_wlm_cli --function create_persistent -c CLI -u 2001 {words}");
        let arguments = Arguments::try_parse_from(line.split_whitespace()).unwrap();
        request(&arguments, Owner { uid: 2001, gid: 100 })
    }

    #[test]
    fn slurms_words_become_a_request() {
        let request = asked("-t mybuf -C wlm_pool:1073741824 -a striped -T scratch").unwrap();
        assert_eq!((request.name.as_str(), request.capacity_bytes), ("mybuf", 1 << 30));
        assert_eq!((request.pool.as_deref(), request.shared), (Some("wlm_pool"), None));
        assert_eq!(request.access_modes, [AccessMode::Striped]);
        for (word, shared) in [("yes", true), ("no", false)] {
            let request = asked(&format!("-t mybuf -C wlm_pool:1 -a striped(shared={word})")).unwrap();
            assert_eq!(request.shared, Some(shared));
        }
        assert!(asked("-t mybuf -C 1").unwrap().pool.is_none());
        assert_eq!(request.redundancy, None);
        let hinted = asked("-t mybuf -C 1 -a ldbalance,striped(client_cache=yes)").unwrap();
        assert_eq!(hinted.access_modes, [AccessMode::Striped]);
        let mirrored = asked("-t mybuf -C 1 -a striped(redundancy=mirror,shared=yes)").unwrap();
        assert_eq!((mirrored.redundancy, mirrored.shared), (Some(Redundancy::Mirror), Some(true)));
        let single = asked("-t mybuf -C 1 -a striped(redundancy=none)").unwrap();
        assert_eq!(single.redundancy, Some(Redundancy::None));
    }

    #[test]
    fn what_slurm_does_not_check_is_refused() {
        for words in [
            "-t mybuf -C p:1 -a frobnicate",
            "-t mybuf -C p:1 -T frobnicate",
            "-t mybuf -C p:1 -T cache",
            "-t mybuf -C p:0",
            "-t my/buf -C p:1",
            "-t mybuf -C p:1 -a striped(client_cache=perhaps)",
            "-t mybuf -C p:1 -a striped(redundancy=twice)",
        ] {
            assert!(asked(words).is_err(), "{words}");
        }
    }
}
