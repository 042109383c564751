//! `forebay mount`: a buffer without a job, at a place that the user chooses.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use api::mounted::Mounted;
use model::Token;
use model::phase::Phase;
use wire::control::{CLI, JobProcess, JobSummary, NewToken, PreRun, Script, Setup};

use super::Context;
use crate::arguments::Mount;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::{directives, identity, kept_in, preflight, render};

/// Mounts a new or a kept buffer; the result is the process's exit status.
///
/// # Errors
/// The place does not do, or there is no room.
pub async fn run(arguments: &Mount, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let Some(path) = &arguments.path else { return Err(no_cluster()) };
    if arguments.persistent.is_some() {
        return Err(no_cluster());
    }
    if let Some(capacity) = &arguments.capacity {
        directives::check_capacity(capacity)?;
    }
    preflight::can_mount()?;
    preflight::can_make(arguments.volume)?;
    let context = Context::open(output, dir)?;
    let place = Place::claim(path)?;
    let mounted = match context.service.ensure_up_to_mount(&place.path).await {
        Ok(()) => mount(&context, arguments, &place.path).await,
        Err(failure) => Err(failure),
    };
    if mounted.is_err() {
        place.give_back();
        context.service.stop_if_idle().await;
    }
    mounted
}

/// Why there is no persistent buffer to mount.
pub fn no_cluster() -> Failure {
    Failure::usage(
        "persistent buffers are a cluster's, and this command is for buffers of your own",
        "call it on a node of a cluster, without --dir and FOREBAY_DIR",
    )
}

async fn mount(context: &Context, arguments: &Mount, path: &Path) -> Result<u8, Failure> {
    let Some(token) = &arguments.token else { return mount_new(context, arguments, path).await };
    let _lock = context.records.lock(token)?;
    let status = context.known(token).await?;
    // Control says of a function that is called again that it is done; who types the command again has mistaken the
    // place.
    if status.phase == Phase::Mounted && status.activations.iter().any(|mount| mount.mountpoint == path) {
        return Err(Failure::usage(
            format!("buffer {token} is mounted at {} already", path.display()),
            "name another folder for one mount more",
        ));
    }
    pre_run(context, token, arguments.shared, path).await
}

async fn mount_new(context: &Context, arguments: &Mount, path: &Path) -> Result<u8, Failure> {
    let script = script(arguments, path);
    let owner = identity::owner();
    let request = JobProcess { script: script.clone(), owner: owner.clone(), submitter: None };
    let summary: JobSummary = context.service.post("/v1/job_process", &request).await?;
    let of_folder = kept_in::remark(context.service.folder(), &[]);
    for note in summary.notes.iter().chain(&of_folder) {
        context.output.note(&format!("forebay: note: {note}"));
    }
    let NewToken { token } = context.service.post("/v1/tokens", &serde_json::json!({})).await?;
    let setup = Setup {
        owner,
        script,
        fragments: arguments.nodes,
        volume: arguments.volume.map(Into::into),
        caller: CLI.to_owned(),
        capacity: None,
        hosts: Vec::new(),
    };
    match set_up_and_mount(context, &token, &setup, (path, arguments.shared)).await {
        Ok(status) => Ok(status),
        Err(failure) => {
            // Nothing was ever in it.
            let session = context.session(&token);
            let _ = session.post_run(true).await;
            let _ = session.teardown(true).await;
            Err(failure)
        }
    }
}

async fn set_up_and_mount(
    context: &Context,
    token: &Token,
    setup: &Setup,
    (path, shared): (&Path, bool),
) -> Result<u8, Failure> {
    let session = context.session(token);
    session.call("/setup", setup).await?;
    session.call("/data_in", &serde_json::json!({})).await?;
    pre_run(context, token, shared, path).await
}

async fn pre_run(context: &Context, token: &Token, shared: bool, path: &Path) -> Result<u8, Failure> {
    let status = context
        .session(token)
        .pre_run(&PreRun { mountpoint: Some(path.into()), shared, ..PreRun::default() })
        .await?;
    let room = status.instance.map_or(0, |instance| instance.capacity_bytes);
    let output = &context.output;
    output.say(&format!(
        "forebay: buffer {token} of {} is mounted at {}",
        render::bytes(room),
        path.display()
    ));
    output.say(&format!(
        "         unmount it with `{}`",
        output.command(&format!("umount {}", render::word(path)))
    ));
    Ok(ExitCode::Success.number())
}

/// The script that a batch job would have asked for the same buffer with.
fn script(arguments: &Mount, path: &Path) -> Script {
    let capacity = arguments.capacity.as_deref().unwrap_or_default();
    let mode = arguments.access_mode.word();
    let redundancy = if arguments.mirror { " redundancy=mirror" } else { "" };
    Script {
        text: format!(
            "#!/bin/sh\n#DW jobdw capacity={capacity} access_mode={mode} type=scratch{redundancy}\n"
        ),
        path: path.into(),
        workdir: path.parent().unwrap_or(path).into(),
        job_name: "interactive".into(),
        user: identity::user_name(),
    }
}

/// Where a buffer is to be mounted.
struct Place {
    path: PathBuf,
    made: bool,
}

impl Place {
    /// An empty folder at `path`; makes it if there is none.
    fn claim(path: &Path) -> Result<Place, Failure> {
        let made = match std::fs::create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            Err(e) => return Err(Failure::local("make", path, &e)),
        };
        if disk::is_file(path).unwrap_or(false) {
            let message = format!("{} is a file, and a buffer is mounted at a folder", path.display());
            return Err(Failure::usage(message, "name an empty folder, or one to be made"));
        }
        let empty = std::fs::read_dir(path).map_err(|e| Failure::local("read", path, &e))?.next().is_none();
        // One that is empty would be covered.
        let mounted = Mounted::of_path(path).ok().flatten().filter(|(_, below)| below.is_empty());
        if let Some((mounted, _)) = mounted {
            let place = mounted.mountpoint.display();
            return Err(Failure::usage(
                format!("a buffer is mounted at {place} already"),
                format!(
                    "name another folder, or unmount that one with `forebay umount {}`",
                    render::word(&mounted.mountpoint)
                ),
            ));
        }
        let place = Place { path: path.canonicalize().map_err(|e| Failure::local("find", path, &e))?, made };
        if empty {
            return Ok(place);
        }
        Err(Failure::usage(
            format!("{} is not empty, and what is in it would be hidden", place.path.display()),
            "name an empty folder, or one to be made",
        ))
    }

    /// Removes what was made for a mount that did not come about.
    fn give_back(&self) {
        if self.made {
            // It is empty unless somebody else uses it already, and then it stays.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_empty_folder_and_one_that_was_made_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        let place = Place::claim(&new).unwrap();
        assert!(disk::is_folder(&new).unwrap());
        place.give_back();
        assert!(!disk::exists(&new).unwrap());
        let old = Place::claim(folder.path()).unwrap();
        old.give_back();
        assert!(disk::is_folder(folder.path()).unwrap());
        std::fs::write(folder.path().join("file"), "x").unwrap();
        assert_eq!(Place::claim(folder.path()).err().unwrap().exit_code(), ExitCode::Usage);
        let file = Place::claim(&folder.path().join("file")).err().unwrap();
        assert!(file.exit_code() == ExitCode::Usage && file.to_string().contains("is a file"), "{file}");
    }
}
