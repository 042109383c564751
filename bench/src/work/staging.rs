//! Copying a tree between a folder and a buffer: by `forebay-stage`, and by what users would take instead.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::phase::{Direction, StageKind};
use tests::cluster::program_folder;
use wire::control::Owner;
use wire::node::{NamespaceTarget, StagePolicy, StageSpec};

/// How often the worker's memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What one run of a worker took.
pub struct Run {
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// The most memory that it had, bytes.
    pub peak_bytes: f64,
}

/// Makes `count` files of `len` bytes in the folder, 500 in each of its folders.
pub fn make_tree(folder: &Path, count: usize, len: usize) -> Result<()> {
    let contents = super::block(len);
    for number in 0..count {
        let below = folder.join(format!("d{}", number / 500));
        if number % 500 == 0 {
            fs::create_dir_all(&below)?;
        }
        fs::write(below.join(number.to_string()), &contents)?;
    }
    Ok(())
}

/// Stages a folder with the worker that nodes start.
pub fn stage(
    target: &NamespaceTarget,
    direction: Direction,
    pfs: &Path,
    buffer: &str,
    beside: &Path,
) -> Result<Run> {
    let spec = StageSpec {
        id: "bench".into(),
        direction,
        kind: StageKind::Directory,
        pfs_path: pfs.to_owned(),
        buffer_path: buffer.into(),
        buffer_name: "$DW_JOB_STRIPED".into(),
        source: pfs.display().to_string(),
        destination: buffer.into(),
        target: target.clone(),
        owner: Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() },
        pairs: Vec::new(),
        policy: StagePolicy::default(),
        ticket: String::new(),
    };
    let [path, journal, said] = ["stage.json", "stage.journal", "stage.said"].map(|name| beside.join(name));
    fs::write(&path, serde_json::to_vec(&spec)?)?;
    let _absent = fs::remove_file(&journal);
    let mut command = Command::new(program_folder().join("forebay-stage"));
    command.arg("--spec").arg(&path).arg("--journal").arg(&journal);
    command.stdin(Stdio::null()).stdout(File::create(&said)?).stderr(File::create(beside.join("stage.log"))?);
    let (start, mut peak_bytes) = (Instant::now(), 0.0_f64);
    let mut worker = command.spawn().context("start the stage worker")?;
    let exit = loop {
        peak_bytes = peak_bytes.max(peak(worker.id()).unwrap_or(0.0));
        if let Some(exit) = worker.try_wait()? {
            break exit;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let seconds = start.elapsed().as_secs_f64();
    ensure!(
        exit.success(),
        "the stage failed: {}",
        fs::read_to_string(&said)?.lines().last().unwrap_or_default()
    );
    Ok(Run { seconds, peak_bytes })
}

/// Bytes of memory that a process had at most; `None` once it has ended.
fn peak(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kibibytes| kibibytes * 1024.0)
}

/// A tool that copies the contents of a folder into another, which does not exist.
#[derive(Clone, Copy, Debug)]
pub enum Tool {
    /// `cp -a`.
    Cp,
    /// `rsync -a`.
    Rsync,
    /// Two of `tar`, with a pipe between them.
    Tar,
    /// GNU parallel, with four of `cp -a` at a time.
    Parallel,
    /// `fpsync`, with four of rsync at a time.
    Fpsync,
}

impl Tool {
    /// How results call it.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Cp => "cp -a",
            Tool::Rsync => "rsync -a",
            Tool::Tar => "tar | tar",
            Tool::Parallel => "parallel cp",
            Tool::Fpsync => "fpsync",
        }
    }

    /// From the folder `$1` to the folder `$2`.
    fn command(self) -> &'static str {
        match self {
            Tool::Cp => r#"cp -a "$1/." "$2""#,
            Tool::Rsync => r#"rsync -a "$1/" "$2""#,
            Tool::Tar => r#"tar -C "$1" -cf - . | tar -C "$2" -xpf -"#,
            Tool::Parallel => {
                r#"cd "$1" && find . -type d -print0 | (cd "$2" && xargs -0 mkdir -p)
                   find . ! -type d -print0 | parallel -0 -X -j4 cp -a --parents -t "$2""#
            }
            Tool::Fpsync => {
                r#"work=$(mktemp -d) && fpsync -n 4 -f 500 -t "$work" "$1/" "$2/" && rm -r "$work""#
            }
        }
    }

    /// Copies, and has it on stable storage as a stage has: on the file systems of the folders `kept`, as a sync of a FUSE
    /// mount reaches nothing below it. Seconds.
    pub fn copy(self, from: &Path, to: &Path, kept: &[PathBuf]) -> Result<f64> {
        fs::create_dir(to)?;
        let start = Instant::now();
        let mut command = Command::new("bash");
        command.args(["-e", "-o", "pipefail", "-c", self.command(), "bash"]).arg(from).arg(to);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(command.status()?.success(), "{} failed", self.name());
        ensure!(Command::new("sync").arg("-f").args(kept).status()?.success(), "sync failed");
        Ok(start.elapsed().as_secs_f64())
    }
}

/// MiB/s of a file system in one go: 128 MiB in order to one file, and one fsync.
pub fn device(folder: &Path) -> Result<f64> {
    let path = folder.join("device");
    let rate = super::data::sequential_write(&path)?;
    fs::remove_file(&path)?;
    Ok(rate)
}
