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
}

impl Tool {
    /// How results call it.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Cp => "cp -a and sync",
            Tool::Rsync => "rsync -a and sync",
        }
    }

    /// Copies, and has it on stable storage as a stage has. Seconds.
    pub fn copy(self, from: &Path, to: &Path) -> Result<f64> {
        let source: PathBuf = from.join(match self {
            Tool::Cp => ".",
            Tool::Rsync => "",
        });
        fs::create_dir(to)?;
        let start = Instant::now();
        let mut command = Command::new(match self {
            Tool::Cp => "cp",
            Tool::Rsync => "rsync",
        });
        ensure!(command.arg("-a").arg(source).arg(to).status()?.success(), "{self:?} failed");
        ensure!(Command::new("sync").arg("-f").arg(to).status()?.success(), "sync failed");
        Ok(start.elapsed().as_secs_f64())
    }
}
