//! What one user sees beside the attacks of another (`docs/run/security.md`): creates and small reads in a buffer that
//! both may use, and calls of the workload manager, on a cluster of namespaces without Slurm.

use anyhow::{Context, Result, ensure};
use tests::attackers::{ATTRIBUTES, HOLES, ON_THE_MACHINE, OVER_THE_NETWORK, STRANGERS};
use tests::hosts::plain;
use tests::runner::Site as _;
use tests::sharing::{ADA, GRACE, Session, Site};

use super::Effort;
use crate::pairs::{alternate, nth};
use crate::report::{self, Line, Measurement};

/// How long others are timed, and an attack lasts at least; the latter begins a moment before.
const TIMED_S: &str = "8";
const ATTACK_S: &str = "10";
const HEAD_START: std::time::Duration = std::time::Duration::from_secs(1);

/// Both sides take their time, whatever is asked for.
const MOST_PAIRS: usize = 3;

/// Of nodes that are not told another.
const DATA_PORT: &str = "7072";

/// What a call of the workload manager may take.
const CALL_MS: f64 = 100.0;

/// Arguments: a folder in a buffer, and seconds. Prints the 99.9th percentile of creates and of reads past the cache,
/// in milliseconds.
const USER: &str = r#"
import mmap, os, random, sys, time
folder, end = sys.argv[1], time.time() + float(sys.argv[2])
with open(folder + "/data", "wb") as data: data.write(b"d" * (4 << 20))
data, page = os.open(folder + "/data", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
def timed(work):
    begin = time.perf_counter(); work(); return (time.perf_counter() - begin) * 1e3
creates, reads = [], []
def read(): os.preadv(data, [page], random.randrange(1024) * 4096)
def create(): os.close(os.open(folder + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
while time.time() < end:
    creates.append(timed(create)); os.unlink(folder + "/new"); reads.append(timed(read))
for times in creates, reads:
    times.sort(); print(times[len(times) - 1 - len(times) // 1000])
"#;

/// Arguments: `dw_wlm_cli`, and seconds. Prints the 99th percentile of its calls, in milliseconds.
const MANAGER: &str = r#"
import subprocess, sys, time
program, end, times = sys.argv[1], time.time() + float(sys.argv[2]), []
while time.time() < end:
    begin = time.perf_counter()
    subprocess.run([program, "--function", "pools"], check=True, stdout=subprocess.DEVNULL)
    times.append((time.perf_counter() - begin) * 1e3)
times.sort(); print(times[len(times) - 1 - len(times) // 100])
"#;

/// What grace does meanwhile, with a session of hers in the buffer.
type Attack = fn(&Site, &Session<'_>) -> Result<()>;

const ATTACKS: [(&str, Attack); 5] = [
    ("connections, half heads and large bodies at control's port", |site, _| {
        ran(&site.on("n4/grace", &["python3", "-c", OVER_THE_NETWORK]).stderr)
    }),
    ("scripts of two million wrong lines", |site, _| {
        ran(&site.on("head/grace", &["python3", "-c", ON_THE_MACHINE]).stderr)
    }),
    ("240 kB of extended attributes on each file of a shared buffer", |site, session| {
        let folder = plain(&session.mountpoint);
        ran(&site.on("n3/grace", &["python3", "-c", ATTRIBUTES, folder, ATTACK_S]).stderr)
    }),
    ("strangers at a node's data port", |site, _| {
        ran(&site.on("n4/grace", &["python3", "-c", STRANGERS, "n1", DATA_PORT, ATTACK_S]).stderr)
    }),
    ("150 stages of a hole of 64 GiB", |site, session| {
        let hole = site.pfs(GRACE).join("hole");
        let (forebay, to) = (site.program("forebay"), plain(&session.mountpoint));
        ran(&site.on("n3/grace", &["bash", "-c", HOLES, &forebay, plain(&hole), to, ATTACK_S]).stderr)
    }),
];

/// Each attack; needs root.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    if !rustix::process::geteuid().is_root() {
        report::note("a cluster needs root: nothing is measured beside attacks");
        return Ok(Vec::new());
    }
    let site = Attacked(Site::up());
    let mut lines = Vec::new();
    for (name, attack) in ATTACKS {
        lines.extend(site.beside(name, attack, effort.pairs.min(MOST_PAIRS))?);
    }
    Ok(lines)
}

/// The cluster; it is removed when this is dropped.
struct Attacked(Site);

impl Attacked {
    fn beside(&self, name: &str, attack: Attack, pairs: usize) -> Result<Vec<Measurement>> {
        let pairs = alternate(pairs, || self.once(Some(attack)), || self.once(None))?;
        let quiet = "the same without the attack";
        let line = |what: &str| Line::shown(format!("{what} beside {name}"), "ms", quiet);
        let calls = Line::new(format!("99th percentile of dw_wlm_cli beside {name}"), "ms", "100 ms", 1.0);
        let allowed: Vec<_> = nth(&pairs, 2).into_iter().map(|(beside, _)| (beside, CALL_MS)).collect();
        Ok(vec![
            line("99.9th percentile of create").of_costs(&nth(&pairs, 0)),
            line("99.9th percentile of 4 KiB reads").of_costs(&nth(&pairs, 1)),
            calls.of_costs(&allowed),
        ])
    }

    /// In a buffer of its own: what an attack leaves there is gone with it.
    fn once(&self, attack: Option<Attack>) -> Result<Vec<f64>> {
        let site = &self.0;
        let buffer = site.shared_buffer();
        let mut sessions = [ADA, GRACE].map(|user| site.session(user, &buffer, ""));
        for session in &mut sessions {
            session.data_in().expect_success();
            session.mount();
        }
        let [ada, grace] = &sessions;
        ada.run("chmod 1777 $B; mkdir $B/ada").expect_success();
        let measured = std::thread::scope(|scope| {
            let attacking = attack.map(|attack| scope.spawn(move || attack(site, grace)));
            std::thread::sleep(HEAD_START);
            let calls = scope.spawn(|| times(site, "head", MANAGER, &site.program("dw_wlm_cli")));
            let mut all = times(site, "n3/ada", USER, plain(&ada.mountpoint.join("ada")))?;
            all.extend(calls.join().expect("no thread of the bench panics")?);
            attacking.map_or(Ok(()), |attack| attack.join().expect("no thread of the bench panics"))?;
            Ok(all)
        });
        sessions.into_iter().for_each(Session::end);
        site.destroy(&buffer);
        measured
    }
}

impl Drop for Attacked {
    fn drop(&mut self) {
        self.0.down();
    }
}

fn times(site: &Site, place: &str, program: &str, argument: &str) -> Result<Vec<f64>> {
    let outcome = site.on(place, &["python3", "-c", program, argument, TIMED_S]);
    ensure!(outcome.status.success(), "{place}: {}", outcome.stderr);
    outcome.stdout.lines().map(|line| line.parse().context("a percentile")).collect()
}

/// An attack that could not be made shows nothing.
fn ran(errors: &str) -> Result<()> {
    ensure!(errors.is_empty(), "the attack failed: {errors}");
    Ok(())
}
