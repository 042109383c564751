//! `forebay scrub` and `forebay fsck`: whether what a buffer stores is what was written.

use std::path::PathBuf;
use std::time::Duration;

use api::control::session_path;
use model::Token;
use serde::Serialize;
use wire::node::{Damage, FsckReport, FsckSpec, PartTrouble, ScrubSpec, ScrubStatus};

use super::Context;
use super::cluster::Control;
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
    let (token, spec) = (&arguments.token, spec(arguments)?);
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let scrubbed = scrub_own(&context, token, spec).await;
    context.service.stop_if_started().await;
    told(token, &scrubbed?, None, output)
}

/// Scrubs and compares, likewise.
///
/// # Errors
/// As [`scrub`].
pub async fn fsck(arguments: &Fsck, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let token = &arguments.token;
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let scrubbed = scrub_own(&context, token, ScrubSpec::default()).await;
    let spec = FsckSpec { repair: arguments.repair };
    let compared = context.service.post::<_, FsckReport>(&session_path(token.as_str(), "/fsck"), &spec).await;
    context.service.stop_if_started().await;
    told(token, &scrubbed?, Some(&compared?), output)
}

async fn scrub_own(context: &Context, token: &Token, spec: ScrubSpec) -> Result<ScrubStatus, Failure> {
    context.known(token).await?;
    let path = session_path(token.as_str(), "/scrub");
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
    let (token, spec) = (&arguments.token, spec(arguments)?);
    told(token, &scrub_cluster(&Control::of_cluster(output), token, spec)?, None, output)
}

/// The same on a cluster.
///
/// # Errors
/// As [`fsck`].
pub fn cluster_fsck(arguments: &Fsck, output: &Output) -> Result<u8, Failure> {
    let token = &arguments.token;
    let control = Control::of_cluster(output);
    let scrubbed = scrub_cluster(&control, token, ScrubSpec::default())?;
    let spec = FsckSpec { repair: arguments.repair };
    let compared: FsckReport = control.post(&session_path(token.as_str(), "/fsck"), &spec)?;
    told(token, &scrubbed, Some(&compared), output)
}

fn scrub_cluster(control: &Control, token: &Token, spec: ScrubSpec) -> Result<ScrubStatus, Failure> {
    let path = session_path(token.as_str(), "/scrub");
    let start = || control.post::<_, ScrubStatus>(&path, &spec);
    let mut status = start()?;
    while status.running || !status.begun {
        std::thread::sleep(AGAIN);
        status = control.get(&path)?;
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
fn told(
    token: &Token,
    scrub: &ScrubStatus,
    fsck: Option<&FsckReport>,
    output: &Output,
) -> Result<u8, Failure> {
    let unseen = unseen(scrub, fsck);
    if output.json() {
        output.object(&Findings { scrub, fsck });
    } else {
        let places = scrub.damaged.iter().chain(&scrub.unverified);
        places.for_each(|damage| output.say(&line(damage, &unseen)));
        let (objects, bytes) = (scrub.objects, render::bytes(scrub.bytes));
        output.say(&format!("forebay: compared {objects} objects, {bytes}, with their checksums"));
        if scrub.repaired > 0 {
            let places = render::counted(scrub.repaired, "damaged place", "damaged places");
            output.say(&format!("         repaired {places} from the other copy; the nodes' logs name them"));
        }
        if scrub.in_use > 0 {
            output.say(&format!("         {} objects are in use, and were not summed yet", scrub.in_use));
        }
    }
    let left = fsck.map_or((0, 0), |fsck| said(fsck, output));
    if !output.json() {
        unseen.iter().for_each(|part| output.say(&format!("         not looked at: {}", part_line(part))));
    }
    verdict(scrub, left, &unseen)?;
    doubt(token, scrub, fsck, output)
}

/// What nobody can tell of is a failure until somebody takes it as it is.
fn doubt(
    token: &Token,
    scrub: &ScrubStatus,
    fsck: Option<&FsckReport>,
    output: &Output,
) -> Result<u8, Failure> {
    let Some(why) = scrub.seals_lost.as_ref().filter(|_| fsck.is_none_or(|fsck| fsck.accepted == 0)) else {
        return Ok(ExitCode::Success.number());
    };
    let count = scrub.unverified.len() as u64 + scrub.unverified_more;
    let parts = render::counted(count, "object was", "objects were");
    Err(Failure::Refused {
        exit: ExitCode::StageOut,
        message: format!("{parts} not compared with anything, as checksums were lost: {why}"),
        advice: format!(
            "compare the files with where they came from, or write them anew; `{}` takes them as they are",
            output.command(&format!("fsck {token} --repair"))
        ),
    })
}

/// The parts that one of both did not look at.
fn unseen<'a>(scrub: &'a ScrubStatus, fsck: Option<&'a FsckReport>) -> Vec<&'a PartTrouble> {
    let mut unseen: Vec<&PartTrouble> = scrub.unseen.iter().collect();
    for part in fsck.iter().flat_map(|fsck| &fsck.unseen) {
        if unseen.iter().all(|known| known.part != part.part) {
            unseen.push(part);
        }
    }
    unseen
}

fn part_line(part: &PartTrouble) -> String {
    format!("the part on node {}: {}", part.node, part.why)
}

/// The worst of what was found.
fn verdict(
    scrub: &ScrubStatus,
    (orphans, strays): (u64, u64),
    unseen: &[&PartTrouble],
) -> Result<u8, Failure> {
    let places = scrub.damaged.len() as u64 + scrub.more;
    let damaged = format!("{places} places of objects are damaged: reading them fails with EIO");
    let besides = if places > 0 { format!("; {damaged}") } else { String::new() };
    if let Some(part) = unseen.first() {
        let count = render::counted(unseen.len() as u64, "part was", "parts were");
        let message = format!("{count} not looked at{besides}");
        return Err(Failure::unavailable(message, part.advice.clone()));
    }
    if let Some(error) = &scrub.error {
        let message = format!("not all could be looked at: {error}{besides}");
        return Err(Failure::unavailable(
            message,
            "look into the log of the node that it names, then repeat the command",
        ));
    }
    let refused = |message: String, advice: &str| {
        Err(Failure::Refused { exit: ExitCode::StageOut, message, advice: advice.into() })
    };
    if places > 0 {
        return refused(damaged, "write the files anew or remove them, or stage them in again");
    }
    if strays > 0 {
        let files = render::counted(strays, "file", "files");
        return refused(
            format!("{files} in the folders of objects are not objects, or misplaced"),
            "while the node does not run, move an object back to the folder that its last two digits name, and \
             remove what is not an object",
        );
    }
    if orphans > 0 {
        return refused(format!("{orphans} objects belong to no file"), "free them with --repair");
    }
    Ok(ExitCode::Success.number())
}

/// Says what comparing found; gives how many orphans are left, and how many strays there are.
fn said(fsck: &FsckReport, output: &Output) -> (u64, u64) {
    if !output.json() {
        for orphan in &fsck.orphans {
            let (ino, part, size) = (orphan.ino, orphan.fragment, render::bytes(orphan.bytes));
            output.say(&format!("object of inode {ino} on part {part}, {size}: belongs to no file"));
        }
        for stray in &fsck.strays {
            let (path, node) = (render::on_one_line(&stray.path.display().to_string()), &stray.node);
            output.say(&format!("{path} on node {node}: is not an object, or is in the wrong folder"));
        }
        let (inodes, objects, freed) = (fsck.inodes, fsck.objects, fsck.freed);
        if fsck.accepted > 0 {
            output.say(&format!("         took {} objects without checksums as they are", fsck.accepted));
        }
        if fsck.lost_writes > 0 {
            let found = render::counted(fsck.lost_writes, "loss", "losses");
            let taken = fsck.lost_writes_taken;
            output.say(&format!(
                "         {found} of writes that no fsync had confirmed, and no program was told; took {taken} as \
                 they are"
            ));
        }
        output.say(&format!("forebay: compared {inodes} inodes with {objects} objects; freed {freed}"));
    }
    ((fsck.orphans.len() as u64).saturating_sub(fsck.freed), fsck.strays.len() as u64)
}

fn line(damage: &Damage, unseen: &[&PartTrouble]) -> String {
    let named = damage.path.as_deref().map(render::on_one_line);
    let file = named.unwrap_or_else(|| match unseen {
        [] => format!("a file without a name (inode {})", damage.ino),
        _ => format!("a file whose name could not be looked up (inode {})", damage.ino),
    });
    let Damage { start, end, file_start, file_end, node, what, .. } = damage;
    // Between stripes of one node lie those of others.
    let bytes = match file_end - file_start == end - start {
        true => format!("bytes {file_start} to {file_end}, on node {node},"),
        false => format!("what node {node} has of bytes {file_start} to {file_end}: they"),
    };
    format!("{file}: {bytes} {what}")
}

#[cfg(test)]
mod tests {
    use model::NodeName;

    use super::*;

    #[test]
    fn a_damaged_place_is_told_in_bytes_of_the_file_with_the_node() {
        let place = |file_start, file_end| Damage {
            end: 4096,
            file_start,
            file_end,
            node: NodeName::literal("n1"),
            what: "do not match their checksums".into(),
            path: Some("out/a.h5".into()),
            ..Damage::default()
        };
        assert_eq!(
            line(&place(1 << 20, (1 << 20) + 4096), &[]),
            "out/a.h5: bytes 1048576 to 1052672, on node n1, do not match their checksums"
        );
        assert_eq!(
            line(&place(0, 9000), &[]),
            "out/a.h5: what node n1 has of bytes 0 to 9000: they do not match their checksums"
        );
    }
}
