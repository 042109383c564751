//! `forebay scrub` and `forebay fsck`: whether what a buffer stores is what was written.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use wire::node::{Damage, FsckReport, FsckSpec, ScrubSpec, ScrubStatus};
use wlm::control::{Control, session_path};

use super::{Context, checked_token, cluster};
use crate::arguments::{Fsck, Scrub};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// Between two looks at a scrub.
const AGAIN: Duration = Duration::from_millis(200);

/// Both results, for programs.
#[derive(Serialize)]
struct Findings<'a> {
    scrub: &'a ScrubStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    fsck: Option<&'a FsckReport>,
}

/// Scrubs a buffer of this user's own service.
///
/// # Errors
/// There is no such buffer, its nodes do not answer, or something is damaged.
pub async fn scrub(arguments: &Scrub, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let (token, spec) = (checked_token(&arguments.token)?, spec(arguments)?);
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let scrubbed = scrub_own(&context, token, spec).await;
    context.service.stop_if_started().await;
    told(&scrubbed?, None, output)
}

/// Scrubs and compares, likewise.
///
/// # Errors
/// As [`scrub`].
pub async fn fsck(arguments: &Fsck, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let token = checked_token(&arguments.token)?;
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let scrubbed = scrub_own(&context, token, ScrubSpec::default()).await;
    let spec = FsckSpec { repair: arguments.repair };
    let compared = context.service.post::<_, FsckReport>(&session_path(token, "/fsck"), &spec).await;
    context.service.stop_if_started().await;
    told(&scrubbed?, Some(&compared?), output)
}

async fn scrub_own(context: &Context, token: &str, spec: ScrubSpec) -> Result<ScrubStatus, Failure> {
    context.known(token).await?;
    let path = session_path(token, "/scrub");
    let mut status: ScrubStatus = context.service.post(&path, &spec).await?;
    while status.running || !status.begun {
        tokio::time::sleep(AGAIN).await;
        status = context.service.get(&path).await?;
        if !status.begun {
            // A node was started again meanwhile, and knows of none.
            status = context.service.post(&path, &spec).await?;
        }
    }
    Ok(status)
}

/// The same on a cluster.
///
/// # Errors
/// As [`scrub`].
pub fn cluster_scrub(arguments: &Scrub, output: &Output) -> Result<u8, Failure> {
    let (token, spec) = (checked_token(&arguments.token)?, spec(arguments)?);
    told(&scrub_cluster(&Control::patient(cluster::RESTART), token, spec)?, None, output)
}

/// The same on a cluster.
///
/// # Errors
/// As [`fsck`].
pub fn cluster_fsck(arguments: &Fsck, output: &Output) -> Result<u8, Failure> {
    let token = checked_token(&arguments.token)?;
    let control = Control::patient(cluster::RESTART);
    let scrubbed = scrub_cluster(&control, token, ScrubSpec::default())?;
    let spec = FsckSpec { repair: arguments.repair };
    let compared: FsckReport =
        control.post(&session_path(token, "/fsck"), &spec).map_err(cluster::failure)?;
    told(&scrubbed, Some(&compared), output)
}

fn scrub_cluster(control: &Control, token: &str, spec: ScrubSpec) -> Result<ScrubStatus, Failure> {
    let path = session_path(token, "/scrub");
    let start = || control.post::<_, ScrubStatus>(&path, &spec).map_err(cluster::failure);
    let mut status = start()?;
    while status.running || !status.begun {
        std::thread::sleep(AGAIN);
        status = control.get(&path).map_err(cluster::failure)?;
        if !status.begun {
            status = start()?;
        }
    }
    Ok(status)
}

fn spec(arguments: &Scrub) -> Result<ScrubSpec, Failure> {
    let rate = arguments.rate.as_deref().map(model::size::parse).transpose();
    let bytes_per_s =
        rate.map_err(|error| Failure::usage(format!("--rate: {error}"), "write it as 200MiB"))?;
    Ok(ScrubSpec { bytes_per_s })
}

/// Says what was found; damage is a failure.
fn told(scrub: &ScrubStatus, fsck: Option<&FsckReport>, output: &Output) -> Result<u8, Failure> {
    if output.json() {
        output.object(&Findings { scrub, fsck });
    } else {
        scrub.damaged.iter().for_each(|damage| output.say(&line(damage)));
        let (objects, bytes) = (scrub.objects, render::bytes(scrub.bytes));
        output.say(&format!("forebay: compared {objects} objects, {bytes}, with their checksums"));
        if scrub.in_use > 0 {
            output.say(&format!("         {} objects are in use, and were not summed yet", scrub.in_use));
        }
    }
    let orphans = fsck.map_or(0, |fsck| said(fsck, output));
    if let Some(error) = scrub.error.as_ref().or(fsck.and_then(|fsck| fsck.silent.first())) {
        let message = format!("not all could be looked at: {error}");
        return Err(Failure::unavailable(message, "look into the node's log, then repeat the command"));
    }
    let places = scrub.damaged.len() as u64 + scrub.more;
    if places > 0 {
        return Err(Failure::Refused {
            exit: ExitCode::StageOut,
            message: format!("{places} places of objects are damaged: reading them fails with EIO"),
            advice: "write the files anew or remove them, or stage them in again".into(),
        });
    }
    if orphans > 0 {
        return Err(Failure::Refused {
            exit: ExitCode::StageOut,
            message: format!("{orphans} objects belong to no file"),
            advice: "free them with --repair".into(),
        });
    }
    Ok(ExitCode::Success.number())
}

/// Says what comparing found; gives how many orphans are left.
fn said(fsck: &FsckReport, output: &Output) -> u64 {
    if !output.json() {
        for orphan in &fsck.orphans {
            let (ino, part, size) = (orphan.ino, orphan.fragment, render::bytes(orphan.bytes));
            output.say(&format!("object of inode {ino} on part {part}, {size}: belongs to no file"));
        }
        let (inodes, objects, freed) = (fsck.inodes, fsck.objects, fsck.freed);
        output.say(&format!("forebay: compared {inodes} inodes with {objects} objects; freed {freed}"));
    }
    (fsck.orphans.len() as u64).saturating_sub(fsck.freed)
}

fn line(damage: &Damage) -> String {
    let file = damage.path.clone().unwrap_or_else(|| format!("a file without a name (inode {})", damage.ino));
    format!("{file}: {}", damage.what)
}
