//! What encryption costs: four storage nodes and one client in this process, which speak over TCP, with and without.

use std::io;

use anyhow::Result;
use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::Ino;
use wire::data::Credential;
use wire::data::hello::ENCRYPTED;

use super::Effort;
use crate::cpu;
use crate::nodes::Nodes;
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::creates::CREATOR;
use crate::work::{MEBIBYTE, PAGE, rate};

const NODES: u32 = 4;

/// Threads of the client, each with a file of its own.
const THREADS: usize = 2;

/// Bytes of each file, and how many pages of it are read in no order.
const FILE_BYTES: usize = 256 * MEBIBYTE;
const PAGES: usize = 20_000;

const AGAINST: &str = "the same in clear";

/// The works, with what their rates count.
const WORKS: [(&str, &str); 3] =
    [("write, 1 MiB each", "MiB/s"), ("read, 1 MiB each", "MiB/s"), ("read in no order, 4 KiB each", "1/s")];

/// Rates and CPU seconds of each work.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let digits = "5a".repeat(32);
    let (encrypted, clear) = (Side::start(&format!("{ENCRYPTED}{digits}"))?, Side::start(&digits)?);
    // Whoever comes first finds memory that nobody has used for long.
    encrypted.run()?;
    clear.run()?;
    let figures = alternate(effort.pairs, || encrypted.run(), || clear.run())?;
    let mut lines = Vec::new();
    for (index, (work, unit)) in WORKS.into_iter().enumerate() {
        let case = format!("{work}, encrypted, memory, {NODES} nodes, {THREADS} threads");
        lines.push(Line::shown(case.clone(), unit, AGAINST).of(&nth(&figures, 2 * index)));
        let cost = if unit == "1/s" { "us" } else { "s/GiB" };
        lines.push(
            Line::shown(format!("CPU of {case}"), cost, AGAINST).of_costs(&nth(&figures, 2 * index + 1)),
        );
    }
    Ok(lines)
}

/// Nodes with one instance, and a client.
struct Side {
    client: Client,
    files: Vec<Ino>,
    _nodes: Nodes,
}

impl Side {
    fn start(key: &str) -> Result<Side> {
        let nodes = Nodes::start(NODES, key, (THREADS * FILE_BYTES) as u64)?;
        let client = nodes.connect(Credential::member)?;
        let make = |number: usize| client.create(New, ROOT, number.to_string().as_bytes(), 0o600, &CREATOR);
        let files = (0..THREADS).map(|number| Ok(make(number)?.ino)).collect::<Result<_>>()?;
        Ok(Side { client, files, _nodes: nodes })
    }

    /// For each work its rate, and what one unit of it costs.
    fn run(&self) -> Result<Vec<f64>> {
        let mebibytes = THREADS * FILE_BYTES / MEBIBYTE;
        let counts = [mebibytes, mebibytes, THREADS * PAGES];
        let works: [fn(&Side, Ino) -> io::Result<()>; 3] = [Side::write, Side::read, Side::read_pages];
        let mut figures = Vec::new();
        for (work, count) in works.into_iter().zip(counts) {
            let pid = i32::try_from(std::process::id())?;
            let before = cpu::seconds([pid])?;
            figures.push(rate("requests of the client", count, || self.with_all(work))?);
            let units = if count == mebibytes { count as f64 / 1024.0 } else { count as f64 / 1e6 };
            figures.push((cpu::seconds([pid])? - before) / units);
        }
        Ok(figures)
    }

    fn with_all(&self, work: fn(&Side, Ino) -> io::Result<()>) -> io::Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.files.iter().map(|&ino| scope.spawn(move || work(self, ino))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })
    }

    fn write(&self, ino: Ino) -> io::Result<()> {
        let bytes = vec![7; MEBIBYTE];
        for offset in (0..FILE_BYTES as u64).step_by(MEBIBYTE) {
            self.client.write(ino, offset, &bytes)?;
        }
        Ok(self.client.fsync(ino)?)
    }

    fn read(&self, ino: Ino) -> io::Result<()> {
        let mut bytes = vec![0; MEBIBYTE];
        for offset in (0..FILE_BYTES as u64).step_by(MEBIBYTE) {
            self.read_at(ino, offset, &mut bytes)?;
        }
        Ok(())
    }

    fn read_pages(&self, ino: Ino) -> io::Result<()> {
        let (mut bytes, mut page) = (vec![0; PAGE], 1usize);
        for _ in 0..PAGES {
            // Steps that share no divisor with the number of pages come to all of them.
            page = (page + 40_503) % (FILE_BYTES / PAGE);
            self.read_at(ino, (page * PAGE) as u64, &mut bytes)?;
        }
        Ok(())
    }

    fn read_at(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let len = self.client.read(ino, offset, bytes)?;
        match len == bytes.len() && bytes[0] == 7 && bytes[len - 1] == 7 {
            true => Ok(()),
            false => Err(io::Error::other(format!("other bytes at {offset}"))),
        }
    }
}
