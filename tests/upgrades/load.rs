//! A program that writes on one node what another one reads, all the time, through handles that are opened once.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use tests::processes::wait_until;
use tests::site::HANGS_AFTER;
use tests::tree::bytes;

use crate::job::Job;

/// Bytes of a record.
const RECORD: usize = 64 << 10;

/// So many have a place; then the first is replaced. They are stripes of both storage nodes.
const PLACES: u64 = 256;

/// The program. It ends with [`Load::finish`].
pub struct Load {
    thread: JoinHandle<()>,
    state: Arc<State>,
    paths: [PathBuf; 2],
}

#[derive(Default)]
struct State {
    /// Records that were written and read back.
    done: AtomicU64,
    ends: AtomicBool,
}

impl Load {
    /// Starts it on n3 and n4.
    #[track_caller]
    pub fn start(job: &Job<'_>) -> Load {
        job.run("n3", "mkdir out");
        let paths = ["n3", "n4"].map(|node| job.at(node, "out/records"));
        let writer = File::create_new(&paths[0]).unwrap();
        let reader = File::options().read(true).write(true).open(&paths[1]).unwrap();
        let state = Arc::new(State::default());
        let thread = std::thread::spawn({
            let state = Arc::clone(&state);
            move || write_and_read(&writer, &reader, &state)
        });
        Load { thread, state, paths }
    }

    /// Waits until more has been written and read.
    #[track_caller]
    pub fn goes_on(&self) {
        let before = self.state.done.load(Ordering::SeqCst);
        let went_on = || self.state.done.load(Ordering::SeqCst) >= before + 20;
        let ended = || self.thread.is_finished();
        assert!(
            wait_until(HANGS_AFTER, || went_on() || ended()) && !ended(),
            "it has stopped after {before} records"
        );
    }

    /// Ends it; both nodes have the last records. What the file has then.
    #[track_caller]
    pub fn finish(self) -> Vec<u8> {
        self.state.ends.store(true, Ordering::SeqCst);
        self.thread.join().expect("no record was lost");
        let done = self.state.done.load(Ordering::SeqCst);
        for path in self.paths {
            let file = File::open(&path).unwrap();
            (done.saturating_sub(PLACES)..done).for_each(|number| assert_has(&file, number));
        }
        let last = |place| (0..done).rev().find(|number| number % PLACES == place);
        (0..PLACES).filter_map(last).flat_map(|number| bytes(number, RECORD)).collect()
    }
}

fn write_and_read(writer: &File, reader: &File, state: &State) {
    for number in 0.. {
        if state.ends.load(Ordering::SeqCst) {
            return;
        }
        let place = number % PLACES * RECORD as u64;
        writer
            .write_all_at(&bytes(number, RECORD), place)
            .unwrap_or_else(|error| panic!("write {number}: {error}"));
        assert_has(reader, number);
        state.done.store(number + 1, Ordering::SeqCst);
    }
}

fn assert_has(file: &File, number: u64) {
    let mut found = vec![0; RECORD];
    let place = number % PLACES * RECORD as u64;
    file.read_exact_at(&mut found, place).unwrap_or_else(|error| panic!("read {number}: {error}"));
    assert!(found == bytes(number, RECORD), "record {number} differs");
}
