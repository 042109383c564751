//! What comes in between the steps of a change of the key: each is held by a node that does not answer.

use std::fs;
use std::time::Duration;

use tests::cluster::Outcome;
use tests::hosts::plain;
use tests::processes::{Process, wait_until};

use super::{JOB, Part, part, part_with, thief};
use tests::sharing::{ADA, Session, Site};

const SOON: Duration = Duration::from_secs(60);

/// How long the third step may take to begin once nobody but n2 is stopped.
const AT_ONCE: Duration = Duration::from_secs(10);

/// How often a change is asked for until one waits in the wanted step.
const TRIES: u32 = 5;

/// Who is killed while a step is held.
const VICTIMS: [&str; 5] = ["the command", "forebay-control", "n1", "n2", "n3"];

/// At which step of a change the node of a host is, as it has kept it.
fn step(site: &Site, host: &str) -> u64 {
    let folders = fs::read_dir(site.state_of(host).join("fragments")).expect("it stores").flatten();
    let specs = folders.filter_map(|fragment| fs::read(fragment.path().join("spec.json")).ok());
    let specs = specs.filter_map(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    specs.map(|spec| spec["key_step"].as_u64().unwrap_or_default()).max().expect("it has a part")
}

fn ask(site: &Site, buffer: &str) -> Outcome {
    site.on("head", &[&site.program("forebay"), "rekey", buffer])
}

/// Asks until it is done.
pub fn insist(site: &Site, buffer: &str) {
    let mut said = String::new();
    let is_done = wait_until(SOON, || {
        let outcome = ask(site, buffer);
        said = outcome.stdout + &outcome.stderr;
        outcome.status.success()
    });
    assert!(is_done && said.contains("the former one opens nothing any more"), "{said}");
}

/// Has a change wait in one of its steps, and does something then.
fn held(site: &Site, (buffer, nth): (&str, u64), during: impl FnOnce()) {
    let mut during = Some(during);
    let is_held = (0..TRIES).any(|_| {
        try_held(site, (buffer, nth), &mut during);
        during.is_none()
    });
    assert!(is_held, "n1 is never told of step {nth} of a change");
}

/// What is done is taken out of `during`. The third step begins once all have confirmed the second: where n2 is stopped
/// after it has kept the second and before it could say so, the third does not begin, and the change ends unheld.
fn try_held(site: &Site, (buffer, nth): (&str, u64), during: &mut Option<impl FnOnce()>) {
    let begun = step(site, "n1");
    let is_reached = |host: &str, wanted, within| wait_until(within, || step(site, host) >= begun + wanted);
    let mut act = || (during.take().expect("it is done once"))();
    std::thread::scope(|scope| {
        let holder = site.node(if nth == 2 || nth == 3 { "n3" } else { "n2" }).stop();
        let asked = scope.spawn(|| ask(site, buffer));
        assert!(is_reached("n1", nth.min(2), SOON), "n1 is not told of step {nth}");
        if nth == 3 {
            assert!(is_reached("n2", 2, SOON), "n2 is not told of the second step");
            let next = site.node("n2").stop();
            drop(holder);
            if is_reached("n1", 3, AT_ONCE) {
                act();
            }
            drop(next);
        } else {
            act();
            drop(holder);
        }
        drop(asked.join().expect("it ends"));
    });
}

fn status(site: &Site) -> String {
    site.on("head", &[&site.program("forebay"), "status"]).expect_success().stdout
}

fn kill(site: &Site, victim: &str) {
    match victim {
        "the command" => {
            let found = site.processes("forebay", "rekey");
            assert!(!found.is_empty(), "it waits");
            found.iter().for_each(Process::kill);
        }
        "forebay-control" => site.control().kill(),
        host => site.node(host).kill(),
    }
}

/// A session whose buffer is mounted on n4, which holds no step.
fn mounted_elsewhere<'a>(site: &'a Site, buffer: &str) -> (Session<'a>, Outcome) {
    let session = site.session(ADA, buffer, "");
    fs::write(site.folder().join(format!("on-{}", session.token)), "n4\n").expect("ours");
    let outcome = session.try_mount();
    (session, outcome)
}

/// What it has mounted works.
fn assert_works(site: &Site, session: &Session<'_>) {
    let pattern = format!("/mnt/{}/", session.token);
    let found = site.mounts("n4").into_iter().find(|mount| mount.contains(&pattern));
    let path = found.expect("it is mounted");
    let command = format!("echo here > {path}/of-{0} && cat {path}/of-{0}", session.token);
    let said = site.on("n4/ada", &["timeout", "60", "bash", "-c", &command]);
    assert_eq!(said.stdout, "here\n", "{}", said.stderr);
}

fn assert_worthless(site: &Site, parts: &[Part]) {
    for of in parts {
        for kind in ["node", "mount"] {
            assert_eq!(thief(site, of, kind, 0).stdout, "refused 3\n", "{kind} at {}", of.host);
        }
    }
}

/// In each step somebody connects, and somebody is killed. The job notices nothing, who connected works on, and when
/// the command says so the former key is worthless.
pub fn kills(site: &Site) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    let program = site.folder().join("keeps-open-too.py");
    fs::write(&program, JOB).expect("ours");
    std::thread::scope(|scope| {
        let job = scope.spawn(|| ada.run(&format!("python3 {} $B", plain(&program))));
        assert!(wait_until(SOON, || ada.run("ls $B").stdout.contains("new-15")));
        for nth in 1..=3 {
            for victim in VICTIMS {
                let parts = ["n1", "n2"].map(|host| part(site, host));
                let (mut connected, mut drawn) = (None, None);
                held(site, (&buffer, nth), || {
                    // Somebody reads what the first call has drawn.
                    assert!(status(site).contains(&format!("`forebay rekey {buffer}` finishes it")), "{nth}");
                    drawn = Some(part_with(site, "n1", if nth == 1 { "other_key" } else { "key" }));
                    kill(site, victim);
                });
                std::thread::scope(|scope| {
                    let changed = scope.spawn(|| insist(site, &buffer));
                    connected = Some(mounted_elsewhere(site, &buffer));
                    changed.join().expect("it says how it ended");
                });
                let (session, outcome) = connected.expect("it was asked for");
                assert!(outcome.status.success(), "{victim}, {nth}: {}{}", outcome.stdout, outcome.stderr);
                assert_works(site, &session);
                assert_worthless(site, &parts);
                assert_worthless(site, &[drawn.expect("it was held")]);
                session.end();
            }
        }
        ada.run("rm $B/new-*; touch $B/stop").expect_success();
        let done = job.join().expect("it ends by itself");
        assert_eq!(done.stdout, "whole\n", "{}", done.stderr);
    });
    ada.end();
    site.destroy(&buffer);
}

/// Asks for as long as a session stages in: how often the key was changed, and how often a stage was in the way.
fn asked_while_staging(site: &Site, buffer: &str, line: &str) -> (u32, u32) {
    let (mut changed, mut refused) = (0, 0);
    let session = site.session(ADA, buffer, line);
    std::thread::scope(|scope| {
        let staged = scope.spawn(|| session.data_in());
        while !staged.is_finished() {
            let Outcome { status, stderr, .. } = ask(site, buffer);
            if status.success() {
                changed += 1;
            } else {
                assert!(stderr.contains("still opens it") && stderr.contains("stage"), "{stderr}");
                refused += 1;
            }
        }
        staged.join().expect("it ends").expect_success();
    });
    session.end();
    (changed, refused)
}

/// While stages run the key is not changed, which is said, and no stage fails. What is removed meanwhile is removed.
pub fn others(site: &Site) {
    let (buffer, pfs) = (site.shared_buffer(), site.pfs(ADA));
    let source = pfs.join("in");
    fs::write(&source, vec![7; 24 << 20]).expect("ours");
    let source = source.display();
    let line =
        format!("#DW stage_in type=file source={source} destination=$DW_PERSISTENT_STRIPED_{buffer}/in");
    let old = part(site, "n1");
    let asked: Vec<(u32, u32)> = (0..4).map(|_| asked_while_staging(site, &buffer, &line)).collect();
    assert!(asked.iter().any(|(_, refused)| *refused > 0), "no stage was in the way: {asked:?}");
    insist(site, &buffer);
    assert_worthless(site, &[old]);
    site.destroy(&buffer);
    for _ in 0..6 {
        let buffer = site.shared_buffer();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(site, &buffer));
            site.destroy(&buffer);
            let Outcome { status, stderr, .. } = asked.join().expect("it ends");
            let gone = ["is just being removed", "no buffer", "token not found"];
            assert!(status.success() || gone.iter().any(|words| stderr.contains(words)), "{stderr}");
        });
    }
}
