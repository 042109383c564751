//! `forebay with --on-allocation`: a buffer that no administrator knows of, over the nodes of a job.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use tests::hosts::plain;
use tests::processes::{Process, wait_until};
use wire::data::hello::Key;
use wire::hex;

use crate::job::{Job, read};
use crate::site::{ADA, Site, own};

/// How long nodes may take to leave nothing.
const CLEARED: Duration = Duration::from_secs(15);

/// A script that runs `command` with a buffer over all nodes of its job, which keep it in the job's folder.
fn script(pfs: &Path, nodes: u32, options: &str, command: &str) -> String {
    let folder = pfs.display();
    format!(
        "#!/bin/bash\n#SBATCH -N {nodes}\n\
         forebay with --on-allocation --dir {folder} --capacity 64MiB {options} -- bash -c '{command}'\n"
    )
}

/// What is left on any host: processes, mounts, and folders of what was kept in `folder`.
fn left(site: &Site, folder: &Path) -> String {
    let mut left = String::new();
    let inside = plain(folder);
    for name in ["forebay-control", "forebay-node", "forebay-mount", "forebay-stage"] {
        site.processes(name, inside).iter().for_each(|process| left += &format!("{process:?}\n"));
    }
    attendants(site).iter().for_each(|process| left += &format!("{process:?}\n"));
    for host in site.names() {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", site.first_process(host)));
        let table = table.expect("the host lives");
        let mounts = table.lines().filter(|line| line.contains(inside) && line.contains("fuse"));
        mounts.for_each(|line| left += &format!("{host}: {line}\n"));
    }
    let names = fs::read_dir(folder).expect("ours").flatten().map(|entry| entry.file_name());
    let ours = names.filter(|name| name.to_string_lossy().starts_with("forebay-"));
    ours.for_each(|name| left += &format!("{}\n", name.display()));
    left
}

fn attendants(site: &Site) -> Vec<Process> {
    site.processes("forebay", "attend")
}

#[track_caller]
fn assert_nothing_is_left(site: &Site, folder: &Path) {
    let mut seen = String::new();
    let is_clear = wait_until(CLEARED, || {
        seen = left(site, folder);
        seen.is_empty()
    });
    assert!(is_clear, "{seen}");
}

/// A job that has its buffer over two nodes and waits.
fn waiting<'a>(site: &'a Site, pfs: &Path) -> Job<'a> {
    let command = format!("touch $DW_JOB_STRIPED/x {p}/runs; exec sleep 600", p = pfs.display());
    let job = site.submit(ADA, pfs, &script(pfs, 2, "", &command));
    job.wait_until("its command", || pfs.join("runs").exists());
    assert_eq!(site.processes("forebay-mount", plain(pfs)).len(), 2, "one on each node");
    job
}

/// Stages in and out, and every step of the job reads and writes one namespace on each node.
pub fn on_each_node(site: &Site) {
    let pfs = site.pfs(ADA, "own");
    fs::create_dir(pfs.join("given")).expect("ours");
    fs::write(pfs.join("given/a"), "from the file system\n").expect("ours");
    own(&pfs, ADA);
    let step = "cd $DW_JOB_STRIPED; cat given/a; hostname >made/$SLURM_PROCID; findmnt -n -o FSTYPE -T .";
    let command = format!(
        "mkdir ${{DW_JOB_STRIPED}}made && srun -n3 bash -c \"{}\" && forebay status",
        step.replace('$', "\\$")
    );
    let options = format!("--nodes 9 --in {p}/given:given --out made:{p}/made", p = pfs.display());
    let job = site.submit(ADA, &pfs, &script(&pfs, 3, &options, &command));
    job.wait_success();
    let output = job.output();
    assert_eq!(output.matches("from the file system\n").count(), 3, "{output}");
    assert_eq!(output.matches("fuse.forebay\n").count(), 3, "{output}");
    assert!(output.contains("note: --nodes 9: this job has 3 nodes"), "{output}");
    let shown =
        output.lines().filter(|line| line.starts_with("  striped mounted at ") && line.contains(" on n"));
    let mut shown: Vec<&str> = shown.collect();
    shown.dedup();
    assert_eq!(shown.len(), 3, "{output}");
    let mut hosts: Vec<String> = (0..3).map(|rank| read(&pfs.join(format!("made/{rank}")))).collect();
    hosts.sort();
    hosts.dedup();
    assert_eq!(hosts.len(), 3, "{hosts:?}");
    assert_nothing_is_left(site, &pfs);
}

/// The job is cancelled; `forebay with` is killed, or asked to end; what it has on the nodes is killed.
pub fn ended_in_any_way(site: &Site) {
    let cancelled = site.pfs(ADA, "end");
    let job = waiting(site, &cancelled);
    job.cancel(&[]);
    job.wait_end();
    assert_nothing_is_left(site, &cancelled);
    let begin = |name, word, signal| {
        let pfs = site.pfs(ADA, "end");
        let job = waiting(site, &pfs);
        let victims = site.processes(name, word);
        assert!(!victims.is_empty(), "{name}");
        victims.iter().for_each(|victim| victim.signal(signal));
        assert_nothing_is_left(site, &pfs);
        job
    };
    for signal in [Signal::KILL, Signal::TERM] {
        let job = begin("forebay", "--on-allocation", signal);
        job.cancel(&[]);
        job.wait_end();
    }
    for (name, how) in [("srun", "ended (signal: 9 (SIGKILL))"), ("forebay", "ended (exit status: 137)")] {
        let job = begin(name, "attend", Signal::KILL);
        assert_eq!(job.wait_end(), "FAILED", "{name}");
        let output = job.output();
        let lost = "what was in the buffer and not staged out is lost";
        for told in [how, lost, "taking away what is left on n", "failed, the job was ended"] {
            assert!(output.contains(told), "{name}: {told}: {output}");
        }
    }
}

/// A node that is killed is started again on its host, and the job goes on.
pub fn killed_node(site: &Site) {
    let pfs = site.pfs(ADA, "kill");
    let command = format!(
        "echo before >$DW_JOB_STRIPED/x; touch {p}/runs; until [ -e {p}/go ]; do sleep 0.1; done; \
         echo after >>$DW_JOB_STRIPED/x; cat $DW_JOB_STRIPED/x",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script(&pfs, 2, "", &command));
    job.wait_until("its command", || pfs.join("runs").exists());
    for node in site.processes("forebay-node", plain(&pfs)) {
        node.kill();
    }
    fs::write(pfs.join("go"), "").expect("ours");
    job.wait_success();
    assert!(job.output().starts_with("before\nafter\n"), "{}", job.output());
    assert_nothing_is_left(site, &pfs);
}

/// `/mnt` is each host's own, and of two nodes only one has the folder.
pub fn node_without_room(site: &Site) {
    let pfs = site.pfs(ADA, "room");
    let place = |host: &str| site.seen_from(host, Path::new("/mnt/flash"));
    fs::create_dir_all(place("n1")).expect("we are root");
    own(&place("n1"), ADA);
    let text =
        script(&pfs, 2, "", "touch ran").replace(&format!("--dir {}", pfs.display()), "--dir /mnt/flash");
    let job =
        site.try_submit(ADA, &pfs, &text, &["--nodelist=n1,n2"]).unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(job.wait_end(), "FAILED");
    let output = job.output();
    assert!(output.contains("forebay: node n2: make the folder /mnt/flash/forebay-"), "{output}");
    assert!(output.contains("No such file or directory"), "{output}");
    assert!(!pfs.join("ran").exists());
    let names = fs::read_dir(place("n1")).expect("ours").flatten().count();
    assert_eq!(names, 0, "something is left on n1");
    assert_nothing_is_left(site, &pfs);
    fs::remove_dir(place("n1")).expect("it is empty");
}

/// One that has no FUSE device is named with why, and what is advised can be done when the command has ended.
pub fn node_that_cannot_mount(site: &Site) {
    let pfs = site.pfs(ADA, "fuse");
    let hidden = site.on("n2", &["mount", "--bind", "/dev/null", "/dev/fuse"]);
    assert!(hidden.status.success(), "{}", hidden.stderr);
    let text = script(&pfs, 2, "", "touch ran");
    let job =
        site.try_submit(ADA, &pfs, &text, &["--nodelist=n1,n2"]).unwrap_or_else(|text| panic!("{text}"));
    let ended = job.wait_end();
    site.on("n2", &["umount", "--lazy", "/dev/fuse"]);
    let output = job.output();
    assert_eq!(ended, "FAILED", "{output}");
    assert!(output.contains("forebay: node n2: mount ") && output.contains("--exclude"), "{output}");
    assert!(!output.contains("forebay status") && !output.contains("/log"), "{output}");
    assert!(!pfs.join("ran").exists(), "{output}");
    assert_nothing_is_left(site, &pfs);
}

/// What options name wrongly is said before there is anything, all of it; and that a command has another buffer than it
/// may be meant to have.
pub fn misused(site: &Site) {
    let pfs = site.pfs(ADA, "wrong");
    let folder = pfs.display();
    let options = format!("--in {folder}/none:x --out made:/proc/none");
    let text = script(&pfs, 2, &options, "touch ran")
        + "echo exit status $?\n\
           forebay with --capacity 64MiB -- forebay with --on-allocation --capacity 64MiB -- touch ran\n"
        + &format!(
            "forebay with --on-allocation --dir {folder}/none --capacity 64MiB -- touch ran\necho exit status $?\n"
        );
    let job = site.submit(ADA, &pfs, &text);
    job.wait_success();
    let output = job.output();
    for told in [
        &format!("forebay: --in {folder}/none:x: source {folder}/none: No such file"),
        "forebay: --out made:/proc/none: destination /proc/none",
        "note: this job has 2 nodes, and the buffer is for what runs on this one",
        "this command runs in the job of session 1, which has a buffer",
        &format!("--dir {folder}/none: No such file or directory; name a folder that is on every node"),
    ] {
        assert!(output.contains(told), "{told}: {output}");
    }
    assert!(output.contains("exit status 64\n") && output.contains("exit status 66\n"), "{output}");
    assert!(!pfs.join("ran").exists(), "{output}");
    assert_nothing_is_left(site, &pfs);
}

/// What is not staged out is lost, which is said.
pub fn lost_results(site: &Site) {
    let pfs = site.pfs(ADA, "lost");
    let options = format!("--out none:{}/none", pfs.display());
    let text = script(&pfs, 2, &options, "true") + "echo exit status $?\n";
    let job = site.submit(ADA, &pfs, &text);
    job.wait_success();
    let output = job.output();
    assert!(output.contains("what is in it and not staged out is lost"), "{output}");
    assert!(output.contains("\nexit status 74\n"), "{output}");
    // There is nothing to retry; a buffer of that number may be another one.
    assert!(!output.contains("stage retry") && !output.contains("--discard"), "{output}");
    assert_nothing_is_left(site, &pfs);
}

/// A credential as nodes make them for each other, by another key.
fn forged(host: &str, path: &str) -> String {
    let body = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let payload = format!("forebay 1\n{host}\nGET\n{path}\n{body}\n");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let sealed = [&now.to_be_bytes()[..], &[7; 16], payload.as_bytes()].concat();
    let key = Key::draw().expect("the kernel has random numbers");
    format!("authorization: Munge {}.{}", hex::encode(&sealed), key.seal(&sealed))
}

/// The API of a node does nothing for who has no key, or another one, whoever he is; the folders are their owner's
/// alone, and no program shows the key in its arguments or environment.
pub fn strangers(site: &Site) {
    let pfs = site.pfs(ADA, "key");
    let job = waiting(site, &pfs);
    let folders = fs::read_dir(&pfs).expect("ours").flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 4, "of control, of two nodes, and of their mounts: {folders:?}");
    for folder in &folders {
        let seen = site.on("head/grace", &["ls", plain(folder)]);
        assert!(seen.stderr.contains("Permission denied"), "{}{}", seen.stdout, seen.stderr);
    }
    let nodes: Vec<&PathBuf> = folders.iter().filter(|path| path.join("api.port").exists()).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for node in nodes {
        let host = node.extension().expect("it ends with the node's name").to_string_lossy().into_owned();
        let url = format!("http://{host}:{}/v1/health", read(&node.join("api.port")).trim());
        let other = forged(&host, "/v1/health");
        for (user, header) in
            ["head/ada", "head/grace", "head"].iter().flat_map(|user| [(user, ""), (user, &other)])
        {
            let said = site.on(user, &["curl", "-s", "-H", header, &url]).stdout;
            assert!(said.contains("not_authenticated"), "{user} {header}: {said}");
        }
    }
    let all = ["forebay", "forebay-control", "forebay-node", "forebay-mount", "srun"];
    for process in all.iter().flat_map(|name| site.processes(name, "")) {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let text = process.arguments.join("\0") + &String::from_utf8_lossy(&environment);
        let is_key = |word: &str| word.len() >= 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let keys = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| is_key(word)).count();
        assert_eq!(keys, 0, "{text}");
    }
    job.cancel(&[]);
    job.wait_end();
    assert_nothing_is_left(site, &pfs);
}
