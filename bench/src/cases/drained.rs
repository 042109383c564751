//! Node-local flash that drains to a slower PFS: what it saves, how fast it is, and what it costs while it is late.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tests::local_node::LocalNode;

use super::Effort;
use super::node_local::MEDIUM;
use crate::pairs::alternate;
use crate::report::{self, Line, Measurement};
use crate::slow_pfs::SlowPfs;
use crate::work::MEBIBYTE;
use crate::work::bursts::{Program, clear};
use crate::work::data;

/// What the PFS takes, bytes a second: less than any disk of today, so that the disk hides nothing.
const PFS_RATE: u64 = 100 << 20;

/// The compute phases leave room: a burst's drain takes 1.3 s at the PFS's rate.
const ROOMY: Program = Program {
    name: "burst",
    bursts: 4,
    files: (8, 16 * MEBIBYTE),
    compute: Duration::from_millis(1700),
    direct: false,
};

/// Past the page cache, so that what it costs is the flash.
const DIRECT: Program =
    Program { files: (16, 16 * MEBIBYTE), compute: Duration::from_millis(300), direct: true, ..ROOMY };

/// What is drained while that runs: as fast as flash and drainer can, since the PFS has no limit then.
const BACKLOG: Program =
    Program { name: "old", bursts: 1, files: (48, 16 * MEBIBYTE), compute: Duration::ZERO, direct: true };

/// As often as each side runs at most: each run takes seconds.
const PAIRS_MAX: usize = 3;

const COST: &str = "files that the drainer has begun go on in a burst, read from the same disk, and take the processor that the \
    program leaves";

/// All of it.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    if !SlowPfs::possible() {
        report::note("no limits by cgroup version 1 here: lines with a slow PFS are left out");
        return Ok(Vec::new());
    }
    let folder = tests::local_node::folder_in(MEDIUM);
    // In the cgroup of their own the limit would not hold for drainers.
    let node = LocalNode::start_in(folder.path(), "3GiB", "drain_weight = 0\n");
    let site = Site { pfs: SlowPfs::mount(&node.root().join("pfs"), PFS_RATE)?, node };
    site.give_pfs_away()?;
    site.node.create("1");
    site.drain(&["start", "--removed", "follow"])?;
    // One disk's limit varies little.
    let mut lines = vec![site.safe()?, site.rate()?];
    site.pfs.limit(0)?;
    lines.extend(site.beside_lines(effort.pairs.min(PAIRS_MAX))?);
    Ok(lines)
}

struct Site {
    // Unmounted before the node's folder goes.
    pfs: SlowPfs,
    node: LocalNode,
}

impl Site {
    fn give_pfs_away(&self) -> Result<()> {
        let user = Some(tests::local_node::USER);
        Ok(std::os::unix::fs::chown(self.node.root().join("pfs"), user, user)?)
    }

    fn volume(&self) -> std::path::PathBuf {
        self.node.root().join("bb/ada")
    }

    fn drain(&self, words: &[&str]) -> Result<()> {
        let (done, said) = self.node.drain(words);
        ensure!(done, "forebay drain {words:?}: {said}\n{}", self.node.log());
        Ok(())
    }

    /// Removes the program's files, which the drain follows: nothing is left for the next round.
    fn clear(&self) -> Result<()> {
        clear(&self.volume())?;
        self.drain(&["wait"])?;
        self.pfs.sync()
    }

    /// The time until the output of a program is safe on the PFS.
    fn safe(&self) -> Result<Measurement> {
        let drained = || {
            let start = Instant::now();
            ROOMY.run(&self.volume())?;
            self.drain(&["wait"])?;
            let safe = start.elapsed().as_secs_f64();
            self.clear()?;
            Ok(safe)
        };
        let copied = || {
            self.drain(&["pause"])?;
            let start = Instant::now();
            ROOMY.run(&self.volume())?;
            let copy = self.node.root().join("pfs/copy");
            let done = Command::new("cp").arg("-r").arg(self.volume()).arg(&copy).status()?;
            ensure!(done.success(), "cp fails");
            self.pfs.sync()?;
            let safe = start.elapsed().as_secs_f64();
            std::fs::remove_dir_all(copy)?;
            clear(&self.volume())?;
            self.drain(&["resume"])?;
            self.clear()?;
            Ok(safe)
        };
        let case =
            "4 bursts of 128 MiB, 1.7 s of compute each, until all is safe on a PFS of 100 MiB/s".to_owned();
        let line = Line::new(case, "s", "the same, then cp -r and a sync", 1.5);
        Ok(line.of_costs(&alternate(1, drained, copied)?))
    }

    /// What the drain moves a second, where nobody else wants anything.
    fn rate(&self) -> Result<Measurement> {
        let program = Program { compute: Duration::ZERO, ..ROOMY };
        let mebibytes = (program.bursts * program.files.0 * program.files.1 / MEBIBYTE) as f64;
        let drained = || {
            self.drain(&["pause"])?;
            program.run(&self.volume())?;
            let start = Instant::now();
            self.drain(&["resume"])?;
            self.drain(&["wait"])?;
            let rate = mebibytes / start.elapsed().as_secs_f64();
            self.clear()?;
            Ok(rate)
        };
        let device = || {
            let path = self.node.root().join("pfs/device");
            let rate = data::sequential_write(&path)?;
            std::fs::remove_file(path)?;
            self.pfs.sync()?;
            Ok(rate)
        };
        let case = "32 files of 16 MiB drained to a PFS of 100 MiB/s, verified".to_owned();
        let line = Line::new(case, "MiB/s", "128 MiB written there in order with one fsync", 0.9);
        Ok(line.of(&alternate(1, drained, device)?))
    }

    /// What a drain costs a program that it runs beside, with and without giving way to its bursts; and that it ends.
    fn beside_lines(&self, pairs: usize) -> Result<Vec<Measurement>> {
        let ours = || Ok((self.beside("wait")?, self.alone()?));
        let runs = alternate(pairs, ours, || self.beside("ignore"))?;
        let case = |what: &str| format!("4 bursts of 256 MiB past the cache, {what}");
        let programs: Vec<_> = runs.iter().map(|((ours, alone), _)| (ours.0, *alone)).collect();
        let ignoring: Vec<_> = runs.iter().map(|((_, alone), ignoring)| (ignoring.0, *alone)).collect();
        let ends: Vec<_> = runs.iter().map(|((ours, _), ignoring)| (ours.1, ignoring.1)).collect();
        Ok(vec![
            Line::new(case("beside a drain at full speed"), "s", "the same without", 1.0 / 1.03)
                .bounded_by(COST)
                .of_costs(&programs),
            Line::shown(case("the same with --bursts ignore"), "s", "the same without").of_costs(&ignoring),
            Line::shown(case("until that drain has ended"), "s", "the same with --bursts ignore")
                .of_costs(&ends),
        ])
    }

    /// The program beside the drain of a backlog: its seconds, and those until all is safe.
    fn beside(&self, bursts: &str) -> Result<(f64, f64)> {
        self.drain(&["stop"])?;
        self.drain(&["start", "--removed", "follow", "--bursts", bursts])?;
        self.drain(&["pause"])?;
        BACKLOG.run(&self.volume())?;
        let start = Instant::now();
        self.drain(&["resume"])?;
        let program = DIRECT.run(&self.volume())?;
        self.drain(&["wait"])?;
        let safe = start.elapsed().as_secs_f64();
        self.clear()?;
        Ok((program, safe))
    }

    /// The same while nothing is drained.
    fn alone(&self) -> Result<f64> {
        self.drain(&["pause"])?;
        BACKLOG.run(&self.volume())?;
        let program = DIRECT.run(&self.volume())?;
        clear(&self.volume())?;
        self.drain(&["resume"])?;
        self.clear()?;
        Ok(program)
    }
}
