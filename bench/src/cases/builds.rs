//! Today's programs against those of another build: the same work with each in turn, and the CPU seconds beside. Only
//! `forebay` is called, whose commands stay the same: what its processes say to each other may have changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::cluster::program_folder;

use super::Effort;
use crate::buffer::{Buffer, Medium, Volume, media};
use crate::pairs::alternate;
use crate::report::{self, Line, Measurement};
use crate::work::{MEBIBYTE, PAGE, data, names, staging};

const AGAINST: &str = "the other build";

/// One figure of a run.
struct Figure {
    what: String,
    unit: &'static str,
    rate: f64,
    /// CPU seconds of all processes.
    cpu: f64,
}

/// Work on a mounted buffer.
struct Work {
    /// The group of lines that does alike.
    group: &'static str,
    nodes: u32,
    volume: Volume,
    /// Also where the medium has its say: else in memory alone.
    on_disk: bool,
    run: fn(&Buffer) -> Result<Vec<Figure>>,
}

const WORKS: [Work; 5] = [
    Work { group: "names", nodes: 1, volume: Volume::Default, on_disk: false, run: names },
    Work { group: "names", nodes: 2, volume: Volume::Directory, on_disk: false, run: names },
    Work { group: "network", nodes: 2, volume: Volume::Directory, on_disk: false, run: network },
    Work { group: "staging", nodes: 1, volume: Volume::Default, on_disk: true, run: staged },
    Work { group: "drained", nodes: 1, volume: Volume::Default, on_disk: true, run: drained },
];

/// A tree to copy: its name, how many files, and their length.
const TREES: [(&str, usize, usize); 2] =
    [("a file of 512 MiB", 1, 512 * MEBIBYTE), ("5,000 files of 4 KiB", 5000, PAGE)];

/// Each work of the groups `only` (none: of all), with the programs in the folder `old` and with today's.
pub fn measure(old: &Path, only: &[String], effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    let is_wanted = |work: &&Work| only.is_empty() || only.iter().any(|group| group == work.group);
    for work in WORKS.iter().filter(is_wanted) {
        for medium in media().filter(|medium| work.on_disk || medium.name == "memory") {
            lines.extend(compare(work, medium, old, effort)?);
        }
    }
    Ok(lines)
}

fn compare(work: &Work, medium: Medium, old: &Path, effort: Effort) -> Result<Vec<Measurement>> {
    let of = |programs: PathBuf| {
        Buffer::mount_by(programs, medium, work.nodes, work.volume, &["--capacity", "2GiB"])
    };
    let (today, former) = (of(program_folder())?, of(old.canonicalize()?)?);
    report::note(&format!("measuring: {}", today.name()));
    let both = |buffer: &Buffer| (work.run)(buffer);
    // Whoever comes first finds disk and memory that nobody has used for long.
    both(&former)?;
    both(&today)?;
    let pairs = alternate(effort.pairs, || both(&today), || both(&former))?;
    let mut lines = Vec::new();
    for (index, Figure { what, unit, .. }) in pairs[0].0.iter().enumerate() {
        let case = |prefix: &str| format!("{prefix}{what}, {}", today.name());
        let rates: Vec<_> = pairs.iter().map(|(a, b)| (a[index].rate, b[index].rate)).collect();
        lines.push(Line::shown(case(""), unit, AGAINST).of(&rates));
        let cpu: Vec<_> = pairs.iter().map(|(a, b)| (a[index].cpu, b[index].cpu)).collect();
        lines.push(Line::shown(case("CPU of "), "s", AGAINST).of_costs(&cpu));
    }
    today.unmount()?;
    former.unmount()?;
    Ok(lines)
}

fn figure(
    buffer: &Buffer,
    (what, unit): (impl Into<String>, &'static str),
    rate: impl FnOnce() -> Result<f64>,
) -> Result<Figure> {
    let before = buffer.cpu_seconds()?;
    let rate = rate()?;
    Ok(Figure { what: what.into(), unit, rate, cpu: buffer.cpu_seconds()? - before })
}

/// Rounds, as one is too short for the ticks in which the kernel counts the CPU.
const ROUNDS: usize = 3;

fn names(buffer: &Buffer) -> Result<Vec<Figure>> {
    let all = || {
        let mut seconds = 0.0;
        for _ in 0..ROUNDS {
            seconds += names::run(buffer.mountpoint())?.iter().map(|rate| 1.0 / rate).sum::<f64>();
        }
        Ok(ROUNDS as f64 / seconds)
    };
    Ok(vec![figure(buffer, ("create, stat and unlink of empty files", "1/s"), all)?])
}

fn network(buffer: &Buffer) -> Result<Vec<Figure>> {
    let path = buffer.mountpoint().join("data");
    let works = [data::sequential_write, data::sequential_read, data::random_read, data::random_write];
    let mut figures = Vec::new();
    for (case, work) in data::CASES.into_iter().zip(works) {
        if path.exists() {
            data::forget(&path)?;
        }
        figures.push(figure(buffer, case, || work(&path))?);
    }
    fs::remove_file(&path)?;
    Ok(figures)
}

fn staged(buffer: &Buffer) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, files, len) in TREES {
        let (source, back) = (buffer.folder_beside("source"), buffer.folder_beside("back"));
        let within = buffer.mountpoint().join("staged");
        staging::make_tree(&source, files, len)?;
        staging::sync(std::slice::from_ref(&source))?;
        let way = |way, from: &Path, to: &Path| {
            let seconds = stage(buffer, way, from, to)?;
            Ok(if files == 1 { len as f64 / MEBIBYTE as f64 } else { files as f64 } / seconds)
        };
        let unit = if files == 1 { "MiB/s" } else { "files/s" };
        let stage_in = || way("in", &source, &within);
        figures.push(figure(buffer, (format!("stage-in of {name}"), unit), stage_in)?);
        let stage_out = || way("out", &within, &back);
        figures.push(figure(buffer, (format!("stage-out of {name}"), unit), stage_out)?);
        for folder in [source, back, within] {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(figures)
}

/// Seconds from the stage's start to its end.
fn stage(buffer: &Buffer, way: &str, from: &Path, to: &Path) -> Result<f64> {
    let said = forebay(buffer, &["stage", way, text(from)?, text(to)?, "--wait", "--json"])?;
    let status: Value = serde_json::from_str(&said)?;
    let elapsed = status["stages"][0]["elapsed_ms"].as_f64();
    Ok(elapsed.with_context(|| format!("no time in {said}"))? / 1000.0)
}

/// What is written is drained beside, in a folder of its own on the same medium.
fn drained(buffer: &Buffer) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, files, len) in TREES {
        let (flash, pfs) = (buffer.folder_beside("flash"), buffer.folder_beside("drained"));
        let source = buffer.folder_beside("source");
        staging::make_tree(&source, files, len)?;
        let to = ["--to", text(&pfs)?, "--session", "bench"];
        let from = ["--from", text(&flash)?];
        forebay(buffer, &[&["drain", "start", "--bursts", "ignore"], &from[..], &to[..]].concat())?;
        let work = || {
            let start = Instant::now();
            let copied = Command::new("cp").arg("-r").arg(source.join(".")).arg(&flash).status()?;
            ensure!(copied.success(), "cp -r failed");
            forebay(buffer, &[&["drain", "wait"], &to[..]].concat())?;
            let amount = if files == 1 { len as f64 / MEBIBYTE as f64 } else { files as f64 };
            Ok(amount / start.elapsed().as_secs_f64())
        };
        let unit = if files == 1 { "MiB/s" } else { "files/s" };
        figures.push(figure(buffer, (format!("drain of {name}"), unit), work)?);
        forebay(buffer, &[&["drain", "stop"], &from[..]].concat())?;
        for folder in [source, flash, pfs] {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(figures)
}

/// What a command prints last.
fn forebay(buffer: &Buffer, words: &[&str]) -> Result<String> {
    let ended = buffer.forebay(words);
    ensure!(ended.status.success(), "forebay {}: {}", words.join(" "), ended.stderr);
    Ok(ended.stdout.lines().last().unwrap_or_default().to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("temporary folders have plain names")
}
