//! `forebay umount`: takes an interactive buffer from its place and keeps what is in it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::phase::Phase;
use wire::control::SessionStatus;

use super::{Context, persistent, programs};
use crate::arguments::Umount;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

/// Unmounts; the result is the process's exit status.
///
/// # Errors
/// No buffer of ours is mounted there, or programs have files open in it.
pub async fn run(
    arguments: &Umount,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    let of_cluster = match cluster {
        true => persistent::mounted_at(&absolute(&arguments.path)?, output),
        false => Ok(None),
    };
    if let Ok(Some(mount)) = &of_cluster {
        return mount.end(arguments.force, output);
    }
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let unmounted = unmount(&context, arguments).await;
    context.service.stop_if_idle().await;
    match (unmounted, of_cluster) {
        // It may be a cluster's, whose control does not answer.
        (Err(own), Err(of_cluster)) if own.exit_code() == ExitCode::NoInput => Err(of_cluster),
        (unmounted, _) => unmounted,
    }
}

async fn unmount(context: &Context, arguments: &Umount) -> Result<u8, Failure> {
    let place = absolute(&arguments.path)?;
    let status = context.service.status().await?;
    let Some(session) = status.sessions.iter().find(|session| is_at(session, &place)) else {
        return Err(Failure::no_input(
            format!("no buffer is mounted at {}", place.display()),
            "`forebay status` lists the mounted ones",
        ));
    };
    let token = &session.token;
    // A running script's mount is its own.
    let _lock = context.records.lock(token)?;
    if !arguments.force {
        let or = ", or give --force, which cuts them off from it";
        programs::check_unused([place.as_path()], or)?;
    }
    let left = context.session(token).unmount(&place, arguments.force).await?;
    let output = &context.output;
    let mut others = left.activations.iter().filter(|mount| mount.mountpoint != place);
    if let Some(other) = others.find(|_| left.phase == Phase::Mounted) {
        let other = other.mountpoint.display();
        output.say(&format!("forebay: buffer {token} is unmounted here; it is still mounted at {other}"));
        return Ok(ExitCode::Success.number());
    }
    output.say(&format!("forebay: buffer {token} is unmounted; what is in it is kept"));
    output.say(&format!(
        "         mount it again with `{}`",
        output.command(&format!("mount PATH --token {token}"))
    ));
    output.say(&format!("         destroy it with `{}`", output.command(&format!("rm {token}"))));
    Ok(ExitCode::Success.number())
}

/// `path` as control knows it. The last component is not looked at: a mount whose process died cannot be.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(path).map_err(|e| Failure::local("find", path, &e))?;
    let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else { return Ok(whole) };
    match parent.canonicalize() {
        Ok(parent) => Ok(parent.join(name)),
        // Nothing is mounted in a folder that is not there.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(whole),
        Err(e) => Err(Failure::local("find", parent, &e)),
    }
}

/// A mount whose process died is there all the same: its session is still mounted.
fn is_at(session: &SessionStatus, place: &Path) -> bool {
    let there = session.phase == Phase::Mounted;
    session.activations.iter().any(|mount| mount.mountpoint == place && (there || mount.mounted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use model::NodeName;
    use model::phase::AccessMode;
    use wire::control::ActivationStatus;

    #[test]
    fn a_buffer_that_was_unmounted_is_not_there_any_more() {
        let mut session = fixtures::session();
        session.activations = vec![ActivationStatus {
            node: NodeName::literal("n0"),
            access_mode: AccessMode::Striped,
            mountpoint: "/a".into(),
            mounted: false,
            interruptions: 0,
            persistent: None,
        }];
        assert!(!is_at(&session, Path::new("/a")));
        session.phase = Phase::Mounted;
        assert!(is_at(&session, Path::new("/a")));
        assert!(!is_at(&session, Path::new("/b")));
    }

    #[test]
    fn links_above_the_mount_are_followed_and_the_mount_itself_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
        assert_eq!(absolute(&folder.path().join("link/absent/")).unwrap(), real.join("absent"));
    }
}
