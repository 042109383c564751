//! What Slurm waits for, on a cluster of namespaces on this machine (`scripts/cluster`): the shim, a buffer that is ready,
//! and a whole job beside the same job without a buffer.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::cluster::program_folder;
use tests::processes::{self, wait_until};

use crate::report::{Measurement, median};

/// The largest number of nodes that is measured.
const NODES: usize = 8;

/// What a call of the shim may take, seconds, and its memory, bytes: Slurm makes one for each step of each job.
const CALL_SECONDS: f64 = 0.010;
const CALL_BYTES: f64 = 10e6;

/// Of a call that asks control, as most do.
const CALLS: usize = 50;

/// The ordinary user `ada` of the cluster.
const USER: u32 = 2001;

/// Long enough for any job of these on a busy machine.
const JOB_LIMIT: Duration = Duration::from_secs(60);

/// Everything; needs root and Slurm's packages.
pub fn measure(pairs: usize) -> Result<Vec<Measurement>> {
    let site = Site::up()?;
    let mut all = vec![site.call_time(pairs)?, site.call_memory()?];
    all.extend(site.ready(pairs)?);
    all.push(site.jobs(pairs)?);
    Ok(all)
}

/// A cluster; it is removed when this is dropped.
struct Site {
    folder: PathBuf,
}

impl Site {
    fn up() -> Result<Site> {
        let site = Site { folder: format!("/var/tmp/forebay-bench-{}", std::process::id()).into() };
        let status = site.script("up").arg(NODES.to_string()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "the cluster does not start");
        Ok(site)
    }

    fn script(&self, name: &str) -> Command {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/cluster").join(name);
        let mut command = Command::new(path);
        command.env("FOREBAY_CLUSTER_DIR", &self.folder).env("FOREBAY_CLUSTER_PROGRAMS", program_folder());
        command
    }

    /// A call of the shim beside control, as slurmctld makes it.
    fn shim(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join("bin/dw_wlm_cli"));
        command
            .args(words)
            .env("FOREBAY_CONTROL", self.folder.join("hosts/head/run/forebay/control.sock"))
            .env("FOREBAY_CACHE", self.folder.join("state/wlm-cache"))
            .stdin(Stdio::null());
        command
    }

    /// Calls in a second, beside the least that we accept.
    fn call_time(&self, pairs: usize) -> Result<Measurement> {
        let mut rates = Vec::new();
        for _ in 0..pairs {
            let start = Instant::now();
            for _ in 0..CALLS {
                done(&self.shim(&["--function", "show_sessions"]).output()?)?;
            }
            rates.push(CALLS as f64 / start.elapsed().as_secs_f64());
        }
        let value = median(rates);
        let baseline = 1.0 / CALL_SECONDS;
        let case = "dw_wlm_cli calls, least rate beside".into();
        Ok(Measurement { case, value, unit: "1/s", baseline, ratio: value / baseline, target: 1.0 })
    }

    /// The most memory that a call has had when it waits for the answer of a control service that is stopped.
    fn call_memory(&self) -> Result<Measurement> {
        let control = processes::of_folder(&self.folder).into_iter();
        let control = control.filter(|process| process.program() == "forebay-control");
        let stopped: Vec<_> = control.map(|process| process.stop()).collect();
        let mut call = self
            .shim(&["--function", "show_sessions"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let status = PathBuf::from(format!("/proc/{}/status", call.id()));
        let mut peak = None;
        // Asleep, it has sent its request.
        wait_until(JOB_LIMIT, || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let asleep = text.contains("State:\tS");
            peak = text
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
            asleep
        });
        drop(stopped);
        call.wait()?;
        let peak: f64 = peak.context("the kernel does not tell the shim's memory")?;
        let value = 1024.0 * peak / 1e6;
        let (case, baseline) = ("dw_wlm_cli memory, most beside".into(), CALL_BYTES / 1e6);
        Ok(Measurement { case, value, unit: "MB", baseline, ratio: baseline / value, target: 1.0 })
    }

    /// From setup to mounted everywhere: buffers in a second, beside those on one node.
    fn ready(&self, pairs: usize) -> Result<Vec<Measurement>> {
        let mut all: Vec<Measurement> = Vec::new();
        for nodes in [1, 4, NODES] {
            let rates = (0..pairs).map(|pair| self.ready_once(nodes, pair)).collect::<Result<Vec<_>>>()?;
            let value = median(rates);
            let baseline = all.first().map_or(value, |one| one.value);
            let plural = if nodes == 1 { "" } else { "s" };
            all.push(Measurement {
                case: format!("setup to mounted, {nodes} node{plural} beside 1"),
                value,
                unit: "1/s",
                baseline,
                ratio: value / baseline,
                target: crate::target::READY,
            });
        }
        Ok(all)
    }

    fn ready_once(&self, nodes: usize, pair: usize) -> Result<f64> {
        let (script, hosts) = (self.folder.join("bench.sh"), self.folder.join("bench.hosts"));
        fs::write(&script, "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=128MiB\n")?;
        fs::write(&hosts, (1..=nodes).map(|number| format!("n{number}\n")).collect::<String>())?;
        let (token, user) = (format!("{}{nodes}{pair}", 9000), USER.to_string());
        let (job, pathfile) = (plain(&script)?, self.folder.join("bench.paths"));
        let call = |function: &str, rest: &[&str]| {
            let words = [&["--function", function, "--token", token.as_str(), "--job", job], rest].concat();
            done(&self.shim(&words).output()?)
        };
        let start = Instant::now();
        let owner = ["--caller", "SLURM", "--user", user.as_str(), "--groupid", user.as_str()];
        call("setup", &[&owner[..], &["--capacity", "wlm_pool:128MiB"]].concat())?;
        call("data_in", &[])?;
        call("paths", &["--pathfile", plain(&pathfile)?])?;
        call("pre_run", &["--nodehostnamefile", plain(&hosts)?])?;
        let elapsed = start.elapsed();
        call("teardown", &["--hurry"])?;
        Ok(1.0 / elapsed.as_secs_f64())
    }

    /// Jobs in a second, one after the other, from sbatch to their end; in pairs with and without a buffer.
    fn jobs(&self, pairs: usize) -> Result<Measurement> {
        let mut rates = Vec::new();
        for pair in 0..pairs {
            let with = "#DW jobdw type=scratch access_mode=striped capacity=32MiB\n";
            let (first, second) = if pair % 2 == 0 { (with, "") } else { ("", with) };
            let (first, second) = (self.job(first)?, self.job(second)?);
            rates.push(if pair % 2 == 0 { (first, second) } else { (second, first) });
        }
        Ok(Measurement {
            case: "job with a buffer beside one without".into(),
            value: median(rates.iter().map(|(ours, _)| *ours).collect()),
            unit: "1/s",
            baseline: median(rates.iter().map(|(_, theirs)| *theirs).collect()),
            ratio: median(rates.iter().map(|(ours, theirs)| ours / theirs).collect()),
            target: crate::target::JOB,
        })
    }

    fn job(&self, directive: &str) -> Result<f64> {
        let folder = self.folder.join("pfs/ada");
        let (script, mark) = (folder.join("bench.sh"), folder.join("bench.done"));
        fs::write(&script, format!("#!/bin/bash\n{directive}touch {}\n", mark.display()))?;
        chown(&script, Some(USER), Some(USER))?;
        let start = Instant::now();
        let words = ["head/ada", "sbatch", "--parsable", "--output=/dev/null", plain(&script)?];
        let id = done(&self.script("on").args(words).output()?)?.trim().to_owned();
        let over = wait_until(JOB_LIMIT, || {
            let listed =
                self.script("on").args(["head", "squeue", "-a", "-h", "-j", &id, "-o", "%T"]).output();
            listed.is_ok_and(|listed| listed.stdout.is_empty())
        });
        let elapsed = start.elapsed();
        ensure!(over && mark.exists(), "job {id} did not run to its end");
        fs::remove_file(&mark)?;
        Ok(1.0 / elapsed.as_secs_f64())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !self.script("down").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
            crate::report::note(&format!("the cluster in {} is not removed", self.folder.display()));
        }
    }
}

fn plain(path: &Path) -> Result<&str> {
    path.to_str().context("our folders have plain names")
}

fn done(output: &Output) -> Result<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}
