//! CPU seconds of other processes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The kernel's ticks in a second, as it shows them to programs on every machine that we are built for.
const USER_HZ: f64 = 100.0;

/// What these processes and those that they have waited for have used so far, in the kernel's behalf too.
pub fn seconds(pids: impl IntoIterator<Item = i32>) -> Result<f64> {
    let ticks: Vec<u64> = pids.into_iter().map(ticks).collect::<Result<_>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / USER_HZ)
}

/// The processes whose names begin with `name` and whose command lines name this folder.
pub fn processes(name: &str, folder: &Path) -> Result<Vec<i32>> {
    let folder = folder.to_str().context("temporary folders have plain names")?;
    let numbers =
        fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let said = |pid: i32, what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let wanted = |pid: &i32| said(*pid, "comm").starts_with(name) && said(*pid, "cmdline").contains(folder);
    Ok(numbers.filter(wanted).collect())
}

/// `utime`, `stime`, `cutime` and `cstime` of proc_pid_stat(5), from the 12th field behind the program's name.
fn ticks(pid: i32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let fields = |stat: &str| {
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().skip(11).take(4));
        fields.into_iter().flatten().map(str::parse::<u64>).sum::<Result<u64, _>>()
    };
    stat.map_err(anyhow::Error::from)
        .and_then(|stat| Ok(fields(&stat)?))
        .with_context(|| format!("read the CPU time of process {pid}"))
}
