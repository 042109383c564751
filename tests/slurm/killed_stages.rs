//! Every process that has a part in a stage is killed in the middle of it, one after the other: the copy is whole, and
//! what was done is not done again.

#![expect(clippy::print_stdout, reason = "who is killed when differs from run to run")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tests::processes::{Process, wait_until};
use tests::random::Random;

use crate::job::{Job, PHASE_LIMIT};
use crate::site::{ADA, Site, own};

const FILES: usize = 20_000;
const FILES_IN_A_FOLDER: usize = 500;

/// Threads of a stage that copy (at most 8 workers, and 4 lanes to the mover on the other storage node), and what each
/// has in hand: docs/STAGING.md.
const IN_HAND_MAX: usize = (8 + 4) * 128;

/// Who is killed, once in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Control,
    /// The node that coordinates, and with it the worker.
    Coordinator,
    OtherNode,
    Worker,
    /// What copies on the other node.
    Mover,
}

/// 20,000 small files pass through a buffer on two nodes.
pub fn small_files(site: &Site) {
    let seed = seed();
    let mut random = Random::new(seed);
    println!("     seed {seed}");
    let pfs = site.pfs(ADA, "killed");
    let input = pfs.join("in");
    for number in 0..FILES {
        if number % FILES_IN_A_FOLDER == 0 {
            fs::create_dir_all(input.join(folder_of(number))).expect("ours");
        }
        fs::write(input.join(name(number)), contents(number)).expect("ours");
    }
    own(&pfs, ADA);
    let script = format!(
        "#!/bin/bash\n#SBATCH -w n3\n#DW jobdw type=scratch access_mode=striped capacity=160MiB\n\
         #DW stage_in type=directory source={p}/in destination=$DW_JOB_STRIPED/d\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/d destination={p}/back\n\
         find $DW_JOB_STRIPED/d -type f | wc -l >{p}/seen\n",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    let way_in = kill_all_once(&job, &pfs.join("in"), &mut random, |_| {});
    let back = pfs.join("back");
    let way_out = kill_all_once(&job, &back, &mut random, |done| assert_in_hand(&back, done));
    job.wait_success();
    let missing: Vec<_> = (0..FILES).map(name).filter(|name| !back.join(name).exists()).collect();
    let in_journals = [&way_in, &way_out].map(|journal| journal.copies().len());
    let in_the_job = fs::read_to_string(pfs.join("seen")).expect("the job counts");
    let counts = format!("{in_journals:?} files in the journals, {} in the job", in_the_job.trim());
    assert!(missing.is_empty(), "{} not staged out, {counts}: {missing:?}", missing.len());
    for number in 0..FILES {
        let found = fs::read_to_string(back.join(name(number))).expect("it was there");
        assert_eq!(found, contents(number), "{}", name(number));
    }
    for (way, journal) in [("in", way_in), ("out", way_out)] {
        let copies = journal.copies();
        assert_eq!(copies.len(), FILES, "files that were copied {way}");
        let again: Vec<_> = copies.iter().filter(|(_, copies)| **copies != 1).collect();
        assert!(again.is_empty(), "copied {way} again: {again:?}");
    }
}

/// Who is killed when; `FOREBAY_KILLS_SEED` gives that of a run that printed it.
fn seed() -> u64 {
    let given = std::env::var("FOREBAY_KILLS_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| u64::from(std::process::id()))
}

fn folder_of(number: usize) -> String {
    format!("d{}", number / FILES_IN_A_FOLDER)
}

fn name(number: usize) -> String {
    format!("{}/{number}", folder_of(number))
}

fn contents(number: usize) -> String {
    format!("{number}\n").repeat(1 + number % 700)
}

/// Kills everybody while the stage that names `path` works; `stopped` is told what was done whenever the worker is
/// gone.
fn kill_all_once(job: &Job<'_>, path: &Path, random: &mut Random, stopped: impl Fn(&Journal)) -> Journal {
    use Victim::{Control, Coordinator, Mover, OtherNode, Worker};
    let mut journal = Journal::await_of(job.site, path);
    // First who helps, as one that is lost is not asked for again before the worker is another.
    let mut victims = vec![Mover];
    let mut others = vec![Control, Coordinator, OtherNode, Worker];
    while !others.is_empty() {
        victims.push(others.swap_remove(random.below(others.len() as u64) as usize));
    }
    let part = FILES / (victims.len() + 1);
    for (number, victim) in victims.into_iter().enumerate() {
        let when = number * part + random.below(part as u64) as usize;
        let reached = wait_until(PHASE_LIMIT, || journal.done() > when);
        assert!(reached, "{} files are done, and no more come", journal.done());
        let worker = job.site.process("forebay-stage", &journal.folder);
        for process in of(job.site, &journal, victim) {
            process.kill();
        }
        let done = journal.done();
        assert!(done < FILES, "the stage was over before {victim:?} was killed");
        println!("     {victim:?} was killed when {done} files were done");
        if matches!(victim, Coordinator | Worker) {
            assert!(wait_until(PHASE_LIMIT, || !worker.is_alive()), "the worker outlives its node");
            stopped(&journal);
        }
    }
    journal
}

fn of(site: &Site, journal: &Journal, victim: Victim) -> Vec<Process> {
    let other = if journal.host == "n1" { "n2" } else { "n1" };
    match victim {
        Victim::Control => vec![site.control()],
        Victim::Coordinator => vec![site.node(&journal.host)],
        Victim::OtherNode => vec![site.node(other)],
        Victim::Worker => vec![site.process("forebay-stage", &journal.folder)],
        Victim::Mover => vec![site.process("forebay-stage", &format!("/state/{other}/"))],
    }
}

/// Hardly more is at the target than the journal has: no more is copied again than one worker and its movers had in
/// hand. Its successor may have begun already, and its movers may not have ended yet: parts say whose they are.
#[track_caller]
fn assert_in_hand(target: &Path, journal: &Journal) {
    let (mut named, mut parts) = (0_usize, HashMap::<String, usize>::new());
    for folder in (0..FILES).step_by(FILES_IN_A_FOLDER).map(folder_of) {
        for entry in fs::read_dir(target.join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().expect("our files have plain names");
            match name.strip_suffix(".part") {
                // `.forebay.STAGE.RUN-NUMBER.part`
                Some(part) => {
                    let run = part.split('-').next().unwrap_or(part);
                    *parts.entry(run.to_owned()).or_default() += 1;
                }
                None => named += 1,
            }
        }
    }
    let unnoted = named.saturating_sub(journal.copies().len());
    println!("     {unnoted} more have their names than are noted, and there are parts of runs: {parts:?}");
    let in_hand = unnoted + parts.values().max().copied().unwrap_or(0);
    assert!(in_hand <= IN_HAND_MAX, "one run had {in_hand} in hand: {unnoted} named, parts {parts:?}");
}

/// What a stage notes, read while it does, also after the stage is forgotten.
struct Journal {
    host: String,
    /// The stage's, as in the command line of its worker.
    folder: String,
    file: File,
    read: u64,
    done: usize,
}

impl Journal {
    #[track_caller]
    fn await_of(site: &Site, path: &Path) -> Journal {
        let mut found = None;
        let come = wait_until(PHASE_LIMIT, || {
            found = ["n1", "n2"].iter().find_map(|host| Journal::find(site, host, path));
            found.is_some()
        });
        assert!(come, "no node has a stage of {}", path.display());
        found.expect("it was found")
    }

    fn find(site: &Site, host: &str, path: &Path) -> Option<Journal> {
        let is_meant = |folder: &Path| {
            let spec = fs::read_to_string(folder.join("spec.json")).unwrap_or_default();
            let spec: serde_json::Value = serde_json::from_str(&spec).unwrap_or_default();
            spec["pfs_path"].as_str().is_some_and(|pfs| Path::new(pfs) == path)
        };
        let stages = fs::read_dir(site.state_of(host).join("stages")).ok()?.flatten();
        let folder = stages.map(|stage| stage.path()).find(|folder| is_meant(folder))?;
        let file = File::open(folder.join("journal")).ok()?;
        let folder = folder.to_str().expect("our folders have plain names").to_owned();
        Some(Journal { host: host.to_owned(), folder, file, read: 0, done: 0 })
    }

    /// How many files were finished so far.
    fn done(&mut self) -> usize {
        let text = self.text(self.read);
        // A line that is not whole yet is cut off if its writer is killed.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.done += text[..whole].lines().filter(|line| line.starts_with("{\"file\"")).count();
        self.read += whole as u64;
        self.done
    }

    /// How often each file was.
    fn copies(&self) -> HashMap<String, usize> {
        let mut copies = HashMap::new();
        for line in self.text(0).lines().filter(|line| line.starts_with("{\"file\"")) {
            let Ok(record) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            assert_eq!(record["file"]["verified"], "full", "{line}");
            let target = record["file"]["target"].as_str().expect("our files have plain names");
            *copies.entry(target.to_owned()).or_default() += 1;
        }
        copies
    }

    fn text(&self, from: u64) -> String {
        let length = self.file.metadata().expect("it is open").len().saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(length).expect("it fits memory")];
        let read = self.file.read_at(&mut bytes, from).expect("it is open");
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}
