//! What it costs that storage nodes check who asks: a client whose permissions they check, beside one whose kernel has
//! checked them, both in this process and of the same nodes.

use std::io;

use anyhow::Result;
use client::{Client, Contents, Creator, Names, ROOT, RequestId::New};
use model::Ino;
use wire::data::Credential;
use wire::data::credential::{Capability, Identity, User};

use super::Effort;
use crate::cpu;
use crate::nodes::Nodes;
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::{PAGE, rate};

const NODES: u32 = 4;

/// Files that are made and opened, in a folder below two others; and pages of one more, written and read in no order.
const FILES: usize = 10_000;
const PAGES: usize = 20_000;

const AGAINST: &str = "the same by a client whose kernel checks";

/// The least that we want: identities cost 3 % at most.
const TARGET: f64 = 0.97;

/// No root, whom nothing is refused.
const CREATOR: Creator = Creator { uid: 1000, gid: 1000, umask: 0 };

/// The works, in order.
const WORKS: [&str; 4] = ["create", "open and close", "4 KiB write in no order", "4 KiB read in no order"];

/// Rates of each work, and CPU for each operation.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let nodes = Nodes::start(NODES, &"5a".repeat(32), (2 * PAGES * PAGE) as u64)?;
    let connect = |identity| {
        let capability = Capability { identity, namespace: 0, expires_s: None };
        nodes.connect(|key| Credential::derive(&key, capability))
    };
    let owner = User { uid: CREATOR.uid, groups: vec![CREATOR.gid] };
    let (checked, trusted) = (connect(Identity::User(owner))?, connect(Identity::Kernel)?);
    let folders = [b"checked", b"trusted"].map(|name| trusted.mkdir(New, ROOT, name, 0o755, &CREATOR));
    let [checked_in, trusted_in] = folders;
    let (checked, trusted) = (Side::start(checked, checked_in?.ino)?, Side::start(trusted, trusted_in?.ino)?);
    // Who comes first finds memory that nobody has used for long.
    checked.run()?;
    trusted.run()?;
    let figures = alternate(effort.pairs, || checked.run(), || trusted.run())?;
    let mut lines = Vec::new();
    for (index, work) in WORKS.into_iter().enumerate() {
        let case = format!("{work}, who asks is checked, memory, {NODES} nodes");
        lines.push(Line::new(case.clone(), "1/s", AGAINST, TARGET).of(&nth(&figures, 2 * index)));
        lines.push(
            Line::shown(format!("CPU of {case}"), "us", AGAINST).of_costs(&nth(&figures, 2 * index + 1)),
        );
    }
    Ok(lines)
}

/// A client, with a folder of its own.
struct Side {
    client: Client,
    folder: Ino,
    file: Ino,
}

impl Side {
    fn start(client: Client, above: Ino) -> Result<Side> {
        let folder = client.mkdir(New, above, b"folder", 0o755, &CREATOR)?.ino;
        let file = client.create(New, above, b"file", 0o644, &CREATOR)?.ino;
        Ok(Side { client, folder, file })
    }

    /// For each work its rate, and the microseconds of CPU for one.
    fn run(&self) -> Result<Vec<f64>> {
        let names: Vec<Vec<u8>> = (0..FILES).map(|number| format!("file-{number}").into_bytes()).collect();
        let mut inodes = Vec::new();
        let mut figures = Vec::new();
        let mut measure = |what: &str, count: usize, action: &mut dyn FnMut() -> io::Result<()>| {
            let pid = i32::try_from(std::process::id())?;
            let before = cpu::seconds([pid])?;
            figures.push(rate(what, count, action)?);
            figures.push((cpu::seconds([pid])? - before) / (count as f64 / 1e6));
            anyhow::Ok(())
        };
        measure(WORKS[0], FILES, &mut || self.create(&names, &mut inodes))?;
        for &ino in &inodes {
            self.client.close(ino, true)?;
        }
        measure(WORKS[1], FILES, &mut || self.open(&inodes))?;
        measure(WORKS[2], PAGES, &mut || {
            self.pages(|offset| Ok(self.client.write(self.file, offset, &[7; PAGE])?))
        })?;
        measure(WORKS[3], PAGES, &mut || self.pages(|offset| self.read(offset)))?;
        for name in &names {
            self.client.unlink(New, self.folder, name)?;
        }
        Ok(figures)
    }

    fn create(&self, names: &[Vec<u8>], inodes: &mut Vec<Ino>) -> io::Result<()> {
        for name in names {
            inodes.push(self.client.create(New, self.folder, name, 0o644, &CREATOR)?.ino);
        }
        Ok(())
    }

    fn open(&self, inodes: &[Ino]) -> io::Result<()> {
        for &ino in inodes {
            self.client.open(ino, true)?;
            self.client.close(ino, true)?;
        }
        Ok(())
    }

    /// Steps that share no divisor with the number of pages come to all of them.
    fn pages(&self, request: impl Fn(u64) -> io::Result<()>) -> io::Result<()> {
        (0..PAGES).try_for_each(|number| request((number * 7_919 % PAGES * PAGE) as u64))
    }

    fn read(&self, offset: u64) -> io::Result<()> {
        let mut bytes = [0; PAGE];
        match self.client.read(self.file, offset, &mut bytes)? {
            PAGE if bytes == [7; PAGE] => Ok(()),
            len => Err(io::Error::other(format!("{len} other bytes at {offset}"))),
        }
    }
}
