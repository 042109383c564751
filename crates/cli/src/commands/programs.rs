//! Who uses a mount: programs with files open in it, or with their working folder there.
//!
//! Read from `/proc`, as `fuser` does, but from the links' text only: looking at the files themselves would wait for a
//! storage node that hangs. An ordinary user sees only the programs that are this user's own, who alone may enter the
//! mount.
//!
//! **Invariant:** nothing below the mount is touched.

use std::fs;
use std::path::{Path, PathBuf};

use wire::control::SessionStatus;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::{identity, render};

/// How many are named.
const NAMED_MAX: usize = 5;

/// Whether nobody uses what is below any of `places`. What can be done besides ending the programs is `or`.
///
/// # Errors
/// Programs do; they are named.
pub fn check_unused<'a>(places: impl IntoIterator<Item = &'a Path>, or: &str) -> Result<(), Failure> {
    for place in places {
        if let Some(programs) = using(place) {
            return Err(Failure::Refused {
                exit: ExitCode::Busy,
                message: format!("{} is in use by {programs}", place.display()),
                advice: format!("end them, then repeat the command{or}"),
            });
        }
    }
    Ok(())
}

/// The same of every place where a buffer is mounted.
///
/// # Errors
/// As there.
pub fn check_unmountable(session: &SessionStatus, or: &str) -> Result<(), Failure> {
    let mounted = session.activations.iter().filter(|mount| mount.mounted);
    check_unused(mounted.map(|mount| mount.mountpoint.as_path()), or)
}

/// Whether nobody uses the mount of this session, which was made by hand.
///
/// # Errors
/// Programs of this host do, and are named; or it is on another host, whose programs are not seen from here.
pub fn check_unused_by_hand(session: &SessionStatus, output: &Output) -> Result<(), Failure> {
    let host = identity::host();
    for mount in session.activations.iter().filter(|mount| mount.mounted) {
        if mount.node.as_str() == host {
            let or = ", or give --force, which cuts them off from it";
            check_unused([mount.mountpoint.as_path()], or)?;
            continue;
        }
        let umount = output.command(&format!("umount {}", render::word(&mount.mountpoint)));
        return Err(Failure::Refused {
            exit: ExitCode::Busy,
            message: format!(
                "{} is a mount on {}, and programs that use it are not seen from here",
                session.token, mount.node
            ),
            advice: format!("call `{umount}` there, or give --force, which cuts off who uses it"),
        });
    }
    Ok(())
}

/// The programs that use what is below `place`, as `sleep (process 4711), ...`; `None` where nobody does.
fn using(place: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut names: Vec<String> = numbers.filter(|pid| uses(*pid, place)).map(named).collect();
    if names.len() > NAMED_MAX {
        let more = names.len() - NAMED_MAX;
        names.truncate(NAMED_MAX);
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// One that ends meanwhile, or that we may not look at, uses nothing.
fn uses(pid: u32, place: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let is_below = |link: PathBuf| fs::read_link(link).is_ok_and(|target| target.starts_with(place));
    let any_in = |folder: &str| {
        fs::read_dir(process.join(folder))
            .is_ok_and(|links| links.flatten().any(|link| is_below(link.path())))
    };
    is_below(process.join("cwd")) || is_below(process.join("exe")) || any_in("fd") || any_in("map_files")
}

fn named(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} (process {pid})", name.trim_end())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A child that another test of this process forked meanwhile has our descriptors until it is another program.
    fn assert_soon_unused(place: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Some(programs) = using(place) {
            assert!(Instant::now() < deadline, "{} is still in use by {programs}", place.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn who_has_a_file_open_or_works_there_uses_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        assert_eq!(using(&place), None);
        let open = fs::File::create(place.join("file")).unwrap();
        let told = using(&place).unwrap();
        assert!(told.contains(&format!("(process {})", std::process::id())), "{told}");
        drop(open);
        assert_soon_unused(&place);
        let sleeper = std::process::Command::new("sleep").arg("100").current_dir(&place).spawn();
        let mut sleeper = sleeper.unwrap();
        let told = using(&place).unwrap();
        assert!(told.contains(&format!("(process {})", sleeper.id())), "{told}");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_soon_unused(&place);
    }
}
