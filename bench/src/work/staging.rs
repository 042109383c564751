//! Copying a tree between a folder and a buffer: by `forebay-stage`, and by what users would take instead.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::phase::{Direction, StageKind};
use tests::cluster::program_folder;
use tests::processes;
use wire::control::{Owner, StageStatus};
use wire::node::{NamespaceTarget, StagePolicy, StageSpec};

/// How often to look who copies, and how much memory they had.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What one run of a stage took.
pub struct Run {
    /// Seconds from the worker's start to its end.
    pub seconds: f64,
    /// The most memory of a storage node, bytes: its service, and what copies on it.
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

/// What is staged, and how.
pub struct Stage<'a> {
    /// The buffer's.
    pub target: &'a NamespaceTarget,
    /// Which way.
    pub direction: Direction,
    /// The folder on the PFS.
    pub pfs: &'a Path,
    /// The folder in the buffer.
    pub buffer: &'a str,
}

/// Stages a folder with the worker that nodes start: on one machine it copies to and from all of the buffer's nodes.
/// `nodes` is the folder of all of them, and `beside` one for what the worker keeps.
pub fn stage(wanted: &Stage<'_>, nodes: &Path, beside: &Path) -> Result<Run> {
    let spec = spec(wanted);
    let [path, journal, said] = ["stage.json", "stage.journal", "stage.said"].map(|name| beside.join(name));
    fs::write(&path, serde_json::to_vec(&spec)?)?;
    let _absent = fs::remove_file(&journal);
    let mut command = Command::new(program_folder().join("forebay-stage"));
    command.arg("--spec").arg(&path).arg("--journal").arg(&journal);
    command.stdin(Stdio::null()).stdout(File::create(&said)?).stderr(File::create(beside.join("stage.log"))?);
    let (start, mut peaks) = (Instant::now(), Peaks::default());
    let mut worker = command.spawn().context("start the stage worker")?;
    let exit = loop {
        peaks.look(nodes, worker.id());
        if let Some(exit) = worker.try_wait()? {
            break exit;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let seconds = start.elapsed().as_secs_f64();
    let last = fs::read_to_string(&said)?.lines().last().unwrap_or_default().to_owned();
    ensure!(exit.success(), "the stage failed: {last}");
    let status: StageStatus = serde_json::from_str(&last)?;
    ensure!(status.notes.remarks.is_empty(), "not as it should be: {last}");
    Ok(Run { seconds, peak_bytes: peaks.largest() })
}

fn spec(wanted: &Stage<'_>) -> StageSpec {
    StageSpec {
        id: "bench".into(),
        direction: wanted.direction,
        kind: StageKind::Directory,
        pfs_path: wanted.pfs.to_owned(),
        buffer_path: wanted.buffer.into(),
        buffer_name: "$DW_JOB_STRIPED".into(),
        source: wanted.pfs.display().to_string(),
        destination: wanted.buffer.into(),
        target: wanted.target.clone(),
        owner: Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() },
        pairs: Vec::new(),
        pfs_mounts: Vec::new(),
        source_ino: None,
        policy: StagePolicy::default(),
        ticket: String::new(),
    }
}

/// The most memory that each process had, by its node's number.
#[derive(Default)]
struct Peaks(BTreeMap<(String, u32), f64>);

impl Peaks {
    /// The services in `nodes`, what they started, and the worker, which is the first node's.
    fn look(&mut self, nodes: &Path, worker: u32) {
        self.add("n0".to_owned(), worker);
        for process in processes::of_folder(nodes) {
            let program = process.program().to_owned();
            let below =
                process.arguments.iter().find_map(|argument| Path::new(argument).strip_prefix(nodes).ok());
            let node =
                below.and_then(|path| path.iter().next()).map(|name| name.to_string_lossy().into_owned());
            if let (Some(node), Ok(pid), "forebay-node" | "forebay-stage") =
                (node, u32::try_from(process.pid), program.as_str())
            {
                self.add(node, pid);
            }
        }
    }

    fn add(&mut self, node: String, pid: u32) {
        if let Some(bytes) = peak(pid) {
            self.0.insert((node, pid), bytes);
        }
    }

    /// That of the node with most.
    fn largest(&self) -> f64 {
        let mut nodes = BTreeMap::<&str, f64>::new();
        self.0.iter().for_each(|((node, _), bytes)| *nodes.entry(node).or_default() += bytes);
        nodes.into_values().fold(0.0, f64::max)
    }
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

    /// Copies, and has it on stable storage as a stage has: on the file systems of the folders `kept`, as a sync of a
    /// FUSE mount reaches nothing below it. Seconds.
    pub fn copy(self, from: &Path, to: &Path, kept: &[PathBuf]) -> Result<f64> {
        fs::create_dir(to)?;
        let start = Instant::now();
        let mut command = Command::new("bash");
        command.args(["-e", "-o", "pipefail", "-c", self.command(), "bash"]).arg(from).arg(to);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(command.status()?.success(), "{} failed", self.name());
        sync(kept)?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Has everything on the file systems of these folders on stable storage.
pub fn sync(folders: &[PathBuf]) -> Result<()> {
    ensure!(Command::new("sync").arg("-f").args(folders).status()?.success(), "sync failed");
    Ok(())
}

/// Seconds that the file systems of `folders`, in turn, take for `count` files of `len` bytes, in order, each with one
/// fsync.
pub fn device(folders: &[PathBuf], count: usize, len: usize) -> Result<f64> {
    let block = super::block(super::MEBIBYTE);
    let files: Vec<PathBuf> = folders
        .iter()
        .cycle()
        .take(count)
        .enumerate()
        .map(|(number, folder)| folder.join(format!("device{number}")))
        .collect();
    let start = Instant::now();
    for path in &files {
        let mut file = File::create(path)?;
        for _ in 0..len / block.len() {
            file.write_all(&block)?;
        }
        file.sync_all()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    files.iter().try_for_each(fs::remove_file)?;
    Ok(seconds)
}
