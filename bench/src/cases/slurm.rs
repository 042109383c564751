//! What Slurm waits for, on a cluster of namespaces on this machine (`scripts/cluster`): the shim, a buffer that is
//! ready, and a whole job beside the same job without a buffer.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::hosts::{Hosts, plain};
use tests::processes::wait_until;

use super::Effort;
use crate::pairs::alternate;
use crate::report::{self, Line, Measurement};

/// Jobs on these are compared with jobs on one node.
const NODES: [usize; 2] = [4, 8];

/// What a call of the shim may take: Slurm makes one for each step of each job.
const CALLS_PER_SECOND: f64 = 100.0;
const CALL_MEGABYTES: f64 = 10.0;

/// Calls in one measurement of their time.
const CALLS: usize = 50;

/// The nodes mount at the same time; here they share two processors.
const READY_RATIO: f64 = 0.2;

/// What makes a buffer, and where its nodes are the job's own: 512 MiB on each of four.
const BUFFER: &str = "access_mode=striped capacity=128MiB";
const OWN_NODES: [(&str, &str); 2] = [
    ("striped over the job's own 4 nodes", "access_mode=striped pool=nvme capacity=2GiB"),
    ("a private volume on each of 4 nodes", "access_mode=private pool=nvme capacity=512MiB"),
];

/// Buffers in a second, one after the other, that 2 s for each are.
const OWN_NODES_READY: f64 = 0.5;

/// Slurm looks at its jobs about once a second, and has to look at one with a buffer twice.
const JOB_RATIO: f64 = 0.3;

/// The ordinary user `ada` of the cluster.
const USER: u32 = 2001;

/// Longer than any job of these, also on a busy machine.
const JOB_LIMIT: Duration = Duration::from_secs(60);

/// Everything; needs root.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    if !rustix::process::geteuid().is_root() {
        report::note("a Slurm cluster needs root: nothing is measured for Slurm");
        return Ok(Vec::new());
    }
    let site = Site(Hosts::up(8, &[]));
    let mut all = vec![site.call_time(effort)?, site.call_memory()?];
    all.extend(site.ready(effort)?);
    all.push(site.jobs(effort)?);
    Ok(all)
}

/// A cluster; it is removed when this is dropped.
struct Site(Hosts);

impl Site {
    /// A call of the shim beside control, as slurmctld makes it.
    fn shim(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.0.program("dw_wlm_cli"));
        command
            .args(words)
            .env("FOREBAY_CONTROL", self.0.run_folder("head").join("forebay/control.sock"))
            .env("FOREBAY_CACHE", self.0.folder().join("state/wlm-cache"))
            .stdin(Stdio::null());
        command
    }

    fn call_time(&self, effort: Effort) -> Result<Measurement> {
        let mut pairs = Vec::new();
        for _ in 0..effort.pairs {
            let start = Instant::now();
            for _ in 0..CALLS {
                done(&self.shim(&["--function", "show_sessions"]).output()?)?;
            }
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            pairs.push((CALLS as f64 / start.elapsed().as_secs_f64(), CALLS_PER_SECOND));
        }
        Ok(Line::new("dw_wlm_cli calls".into(), "1/s", "10 ms for a call", 1.0).of(&pairs))
    }

    /// The most memory that a call has had when it waits for the answer of a control service that is stopped.
    fn call_memory(&self) -> Result<Measurement> {
        let stopped = self.0.control().stop();
        let mut call = self
            .shim(&["--function", "show_sessions"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let status = PathBuf::from(format!("/proc/{}/status", call.id()));
        let mut peak = None;
        wait_until(JOB_LIMIT, || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
            // Asleep, it has sent its request.
            text.contains("State:\tS")
        });
        drop(stopped);
        call.wait()?;
        let megabytes = 1024.0 * peak.context("the kernel does not tell the shim's memory")? / 1e6;
        let line = Line::new("dw_wlm_cli memory".into(), "MB", "10 MB", 1.0);
        Ok(line.of_costs(&[(megabytes, CALL_MEGABYTES)]))
    }

    /// From setup to mounted everywhere: buffers in a second.
    fn ready(&self, effort: Effort) -> Result<Vec<Measurement>> {
        let calls = Cell::new(90_000);
        let ready_as = |nodes, options: &str| {
            calls.set(calls.get() + 1);
            self.ready_once(nodes, &calls.get().to_string(), options)
        };
        let ready = |nodes| ready_as(nodes, BUFFER);
        let one = alternate(effort.pairs, || ready(1), || Ok(10.0))?;
        let mut all = vec![Line::new("setup to mounted, 1 node".into(), "1/s", "100 ms", 0.5).of(&one)];
        for nodes in NODES {
            let pairs = alternate(effort.pairs, || ready(nodes), || ready(1))?;
            let case = format!("setup to mounted, {nodes} nodes");
            all.push(Line::new(case, "1/s", "the same on one node", READY_RATIO).of(&pairs));
        }
        for (what, options) in OWN_NODES {
            let pairs = alternate(effort.pairs, || ready_as(4, options), || Ok(OWN_NODES_READY))?;
            all.push(Line::new(format!("ready: {what}"), "1/s", "2 s", 1.0).of(&pairs));
        }
        Ok(all)
    }

    fn ready_once(&self, nodes: usize, token: &str, options: &str) -> Result<f64> {
        let file = |name: &str| self.0.folder().join(name);
        let (script, hosts, paths) = (file("bench.sh"), file("bench.hosts"), file("bench.paths"));
        fs::write(&script, format!("#!/bin/bash\n#DW jobdw type=scratch {options}\n"))?;
        fs::write(&hosts, self.0.names()[..nodes].join("\n") + "\n")?;
        let call = |function: &str, rest: &[&str]| {
            let words = [&["--function", function, "--token", token, "--job", plain(&script)], rest].concat();
            done(&self.shim(&words).output()?)
        };
        let user = USER.to_string();
        let start = Instant::now();
        let owner = ["--caller", "SLURM", "--user", user.as_str(), "--groupid", user.as_str()];
        call("setup", &[&owner[..], &["--capacity", "wlm_pool:128MiB"]].concat())?;
        call("data_in", &[])?;
        call("paths", &["--pathfile", plain(&paths)])?;
        call("pre_run", &["--nodehostnamefile", plain(&hosts)])?;
        let elapsed = start.elapsed();
        call("teardown", &["--hurry"])?;
        Ok(1.0 / elapsed.as_secs_f64())
    }

    /// Jobs in a second, one after the other, from sbatch to their end.
    fn jobs(&self, effort: Effort) -> Result<Measurement> {
        let with = "#DW jobdw type=scratch access_mode=striped capacity=32MiB\n";
        let pairs = alternate(effort.pairs, || self.job(with), || self.job(""))?;
        let line = Line::new("job with a buffer".into(), "1/s", "the same job without", JOB_RATIO);
        Ok(line.of(&pairs))
    }

    fn job(&self, directive: &str) -> Result<f64> {
        let folder = self.0.folder().join("pfs/ada");
        let (script, mark) = (folder.join("bench.sh"), folder.join("bench.done"));
        fs::write(&script, format!("#!/bin/bash\n{directive}touch {}\n", mark.display()))?;
        chown(&script, Some(USER), Some(USER))?;
        let start = Instant::now();
        let submitted =
            self.0.on("head/ada", &["sbatch", "--parsable", "--output=/dev/null", plain(&script)]);
        ensure!(submitted.status.success(), "{}", submitted.stderr);
        let id = submitted.stdout.trim().to_owned();
        let over = wait_until(JOB_LIMIT, || {
            self.0.on("head", &["squeue", "-a", "-h", "-j", &id, "-o", "%T"]).stdout.is_empty()
        });
        let elapsed = start.elapsed();
        ensure!(over && mark.exists(), "job {id} did not run to its end");
        fs::remove_file(&mark)?;
        Ok(1.0 / elapsed.as_secs_f64())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.0.down();
    }
}

fn done(output: &Output) -> Result<()> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Ok(())
}
