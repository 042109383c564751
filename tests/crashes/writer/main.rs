//! A program that works in a mounted buffer, knows in its memory what the buffer acknowledged, and tells what differs.
//!
//! ```text
//! crash-writer load|durable|confirmed|honest MOUNT NUMBER SEED
//! ```
//!
//! Driven over its standard input, a line each: `stop` ends the work; `verify FOLDER` compares the buffer, mounted
//! there, with what is known; the end of the input ends the program. Every line is answered by one, `ok ...` or
//! `failed: ...`. When a call fails that must not, it says so at once and ends.
//!
//! `load` works until it is told to stop, and no call may fail. `durable` has one thread; its buffer's disk may be cut
//! off at any moment, after which only what an fsync confirmed is compared. `confirmed` goes on while single nodes lose
//! their power: any call may fail, but what an fsync confirmed is there. `honest` lives on over faults that fail its
//! calls or lose what was not confirmed; its orders are in `honest.rs`.
//!
//! It is a process of its own, because the one that starts mounts and servers must hold no file on them.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::print_stdout, reason = "it answers on its standard output")]

mod confirmed;
mod folder;
mod honest;
mod shared;
mod unlinked;

use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use folder::Folder;

/// What went wrong, and where.
type Failure = String;

/// Every call of the system says so, when it fails, with its name and place.
fn failed<E: std::fmt::Display>(what: &str, place: impl std::fmt::Debug) -> impl FnOnce(E) -> Failure {
    let place = format!("{place:?}");
    let what = what.to_owned();
    move |error| format!("{what} {place}: {error}")
}

/// Tells the threads to stop.
static STOP: AtomicBool = AtomicBool::new(false);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, mount, number, seed] = arguments.as_slice() else {
        panic!("arguments: MODE MOUNT NUMBER SEED")
    };
    let mount = Path::new(mount);
    let number: u64 = number.parse().expect("NUMBER is a number");
    let seed: u64 = seed.parse().expect("SEED is a number");
    match mode.as_str() {
        "load" => load(mount, number, seed),
        "durable" => durable(mount, number, seed),
        "honest" => honest::run(mount, number, seed),
        "confirmed" => confirmed(mount, seed),
        other => panic!("no mode {other}"),
    }
}

/// Answers each order until there are no more.
fn obey(mut order: impl FnMut(&str, &str) -> Result<String, Failure>) {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("orders are text");
        let (word, place) = line.split_once(' ').unwrap_or((&line, ""));
        match order(word, place) {
            Ok(said) => println!("ok {said}"),
            Err(failure) => println!("failed: {failure}"),
        }
    }
}

/// What a thread did. If it failed, that is told, and the program ends: what comes after means nothing.
fn worked<T>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| {
        println!("failed: {failure}");
        std::process::exit(1)
    })
}

fn load(mount: &Path, number: u64, seed: u64) {
    let (folders, counts) = std::thread::scope(|scope| {
        let folders = [0, 1].map(|n| {
            scope.spawn(move || worked(work_in_folder(mount, &format!("folder-{number}-{n}"), seed * 10 + n)))
        });
        let counts = [
            scope.spawn(|| worked(shared::append(mount, number))),
            scope.spawn(|| worked(shared::count(mount, shared::Lock::Whole))),
            scope.spawn(|| worked(shared::count(mount, shared::Lock::Range))),
            scope.spawn(|| worked(unlinked::work(mount, number, seed))),
        ];
        println!("ok begun");
        wait_for_stop();
        let folders = folders.map(|worker| worker.join().expect("it does not panic"));
        (folders, counts.map(|worker| worker.join().expect("it does not panic")))
    });
    let steps: u64 = folders.iter().map(Folder::steps).sum();
    let [appends, flocks, ranges, _] = counts;
    println!("ok {appends} {flocks} {ranges} {steps}");
    obey(|word, place| match word {
        "verify" => {
            folders.iter().try_for_each(|folder| folder.verify(Path::new(place)))?;
            Ok(String::new())
        }
        _ => Err(format!("unknown order {word}")),
    });
}

fn work_in_folder(mount: &Path, name: &str, seed: u64) -> Result<Folder, Failure> {
    let mut folder = Folder::make(mount, name, seed)?;
    while !STOP.load(Ordering::Relaxed) {
        folder.step()?;
    }
    Ok(folder)
}

/// Waits for the order to stop.
fn wait_for_stop() {
    let mut line = String::new();
    // The end of the input is an order to stop, too.
    let _length = std::io::stdin().lock().read_line(&mut line);
    STOP.store(true, Ordering::Relaxed);
}

fn durable(mount: &Path, number: u64, seed: u64) {
    let mut folder =
        Folder::make(mount, &format!("folder-{number}-0"), seed).expect("the disk is well at first");
    folder.sync_all().expect("the disk is well at first");
    println!("ok begun");
    let worker = std::thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            // The disk is gone: what comes now is known to be lost.
            if folder.step().is_err() {
                break;
            }
        }
        folder
    });
    wait_for_stop();
    let folder = worker.join().expect("it does not panic");
    println!("ok {} {}", folder.steps(), folder.syncs());
    obey(|word, place| match word {
        "verify" => folder.verify_durable(Path::new(place)).map(|compared| compared.to_string()),
        _ => Err(format!("unknown order {word}")),
    });
}

fn confirmed(mount: &Path, seed: u64) {
    let workers = [0, 1, 2].map(|n| {
        let mount = mount.to_owned();
        std::thread::spawn(move || confirmed::work(&mount, seed * 10 + n))
    });
    println!("ok begun");
    wait_for_stop();
    let work = workers.map(|worker| worker.join().expect("it does not panic"));
    let sum = |count: fn(&confirmed::Work) -> u64| work.iter().map(count).sum::<u64>();
    println!("ok {} {}", sum(|work| work.confirmed), sum(|work| work.refused));
    obey(|word, place| match word {
        "verify" => {
            let compared: Result<Vec<u64>, Failure> =
                work.iter().map(|work| work.verify(Path::new(place))).collect();
            Ok(compared?.iter().sum::<u64>().to_string())
        }
        _ => Err(format!("unknown order {word}")),
    });
}
