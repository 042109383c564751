//! What users see through one mount, as most jobs use it: two programs at once, against the same on a file system that
//! only passes it on, on the local disk, or with files of their own.

mod works;

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::gluster::Gluster;
use crate::loopback::{self, Sharing};
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::records::{RECORD_BYTES, RECORDS};
use crate::work::{MEBIBYTE, PAGE};

use works::{Figure, Place, Series};

/// A line: what is done, what is counted, the least ratio to the work's baseline that we want, and what keeps us below
/// it with several nodes.
type Case = (&'static str, &'static str, Option<f64>, &'static str);

type Run = fn(&Place<'_>) -> Result<Vec<Figure>>;

/// Some lines that are measured in one go.
struct Work {
    cases: &'static [Case],
    run: Run,
    against: Against,
}

/// What the work is compared with.
enum Against {
    BareFuse,
    LocalDisk,
    /// The same requests into files of their own.
    OwnFiles(Run),
}

const WORKS: [Work; 7] = [
    Work {
        cases: &[
            ("own files, 1 MiB writes", "MiB/s", Some(1.2), NOT_PROFILED),
            ("own files, 1 MiB reads after own writes", "MiB/s", None, NOT_PROFILED),
            ("own files, 1 MiB cold reads", "MiB/s", Some(2.0), COPIES),
            ("own files, read through a mapping", "MiB/s", None, NOT_PROFILED),
            ("4 KiB random reads", "1/s", Some(0.6), ROUND_TRIP),
            ("4 KiB random writes", "1/s", Some(0.6), ROUND_TRIP),
        ],
        run: works::large_files,
        against: Against::BareFuse,
    },
    Work {
        cases: &[
            ("one file, 1 MiB writes in turn", "MiB/s", Some(0.95), NOT_PROFILED),
            ("one file, 1 MiB cold reads in turn", "MiB/s", Some(0.95), NOT_PROFILED),
        ],
        run: |place| works::written_and_read(place, MEBIBYTES),
        against: Against::OwnFiles(|place| works::written_and_read(place, MEBIBYTES.in_own_files())),
    },
    Work {
        cases: &[
            ("one file, 47,008-byte records written", "MiB/s", Some(0.8), NOT_PROFILED),
            ("one file, 47,008-byte records read cold", "MiB/s", None, NOT_PROFILED),
        ],
        run: |place| works::written_and_read(place, RECORD),
        against: Against::OwnFiles(|place| works::written_and_read(place, RECORD.in_own_files())),
    },
    Work {
        cases: &[
            ("4 KiB sequential writes", "1/s", Some(0.8), ROUND_TRIP),
            ("1-byte sequential writes", "1/s", Some(0.5), ROUND_TRIP),
        ],
        run: |place| [PAGES, BYTES].into_iter().map(|series| works::written(place, series)).collect(),
        against: Against::LocalDisk,
    },
    Work {
        cases: &[
            ("own folders, create 3,901 bytes", "1/s", Some(0.9), CREATE),
            ("own folders, stat", "1/s", Some(0.9), STAT),
            ("own folders, read 3,901 bytes", "1/s", Some(0.9), READ),
            ("own folders, remove", "1/s", Some(0.9), REMOVE),
        ],
        run: |place| works::small_files(place, false),
        against: Against::BareFuse,
    },
    Work {
        cases: &[
            ("one folder, create 3,901 bytes", "1/s", Some(0.9), CREATE),
            ("one folder, stat", "1/s", Some(0.9), STAT),
            ("one folder, read 3,901 bytes", "1/s", Some(0.9), READ),
            ("one folder, remove", "1/s", Some(0.9), REMOVE),
        ],
        run: |place| works::small_files(place, true),
        against: Against::BareFuse,
    },
    Work {
        cases: &[("open-write-close", "1/s", Some(0.9), NOT_PROFILED)],
        run: works::rounds,
        against: Against::BareFuse,
    },
];

const MEBIBYTES: Series = Series { bytes: MEBIBYTE, count: 64, one_file: true };
const RECORD: Series = Series { bytes: RECORD_BYTES, count: RECORDS, one_file: true };
const PAGES: Series = Series { bytes: PAGE, count: 2048, one_file: false };
const BYTES: Series = Series { bytes: 1, count: 8192, one_file: false };

/// Each work on each medium, with one node and four.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        for nodes in [1, 4] {
            // The baseline's files are in the first node's volume, too.
            let buffer = Buffer::mount_of(medium, nodes, Volume::Default, "4GiB")?;
            lines.extend(compare(&buffer, effort)?);
            buffer.unmount()?;
        }
    }
    Ok(lines)
}

fn compare(buffer: &Buffer, effort: Effort) -> Result<Vec<Measurement>> {
    let backing = buffer.backing()?;
    let loopback = loopback::mount(&backing, &buffer.folder_beside("loopback"), Sharing::Exclusive)?;
    let ours = ours(buffer);
    let bare = Place {
        folder: loopback.mountpoint().to_owned(),
        below: vec![backing.clone()],
        cpu: Box::new(|| loopback.cpu_seconds()),
    };
    let local = Place { folder: backing.clone(), below: vec![backing], cpu: Box::new(|| Ok(0.0)) };
    let mut lines = Vec::new();
    for work in &WORKS {
        let (against, theirs): (_, &dyn Fn() -> Result<Vec<Figure>>) = match &work.against {
            Against::BareFuse => ("a bare FUSE file system", &|| (work.run)(&bare)),
            Against::LocalDisk => ("the backing folder", &|| (work.run)(&local)),
            Against::OwnFiles(run) => ("own files", &|| run(&ours)),
        };
        let pairs = alternate(effort.pairs, || (work.run)(&ours), theirs)?;
        for (index, case) in work.cases.iter().enumerate() {
            lines.extend(two_lines(buffer, case, against, &nth(&pairs, index)));
        }
    }
    Ok(lines)
}

/// The same works on us and on GlusterFS, `targets` are for bandwidths and for rates.
pub fn against_gluster(
    buffer: &Buffer,
    gluster: &Gluster,
    targets: (f64, f64),
    effort: Effort,
) -> Result<Vec<Measurement>> {
    let ours = ours(buffer);
    let theirs = Place {
        folder: gluster.mountpoints()[0].clone(),
        below: gluster.bricks().to_owned(),
        cpu: Box::new(|| gluster.cpu_seconds()),
    };
    let mut lines = Vec::new();
    for Work { cases, run, .. } in &WORKS {
        let pairs = alternate(effort.pairs, || run(&ours), || run(&theirs))?;
        for (index, &(case, unit, target, bound)) in cases.iter().enumerate() {
            let wanted = if unit == "MiB/s" { targets.0 } else { targets.1 };
            let case = (case, unit, target.map(|_| wanted), bound);
            lines.extend(two_lines(buffer, &case, "GlusterFS", &nth(&pairs, index)));
        }
    }
    Ok(lines)
}

fn ours(buffer: &Buffer) -> Place<'_> {
    let folder = buffer.mountpoint().to_owned();
    Place { folder, below: buffer.volumes(), cpu: Box::new(|| buffer.cpu_seconds()) }
}

type Figures = (Figure, Figure);

fn nth(pairs: &[(Vec<Figure>, Vec<Figure>)], index: usize) -> Vec<Figures> {
    pairs.iter().map(|(ours, theirs)| (ours[index], theirs[index])).collect()
}

/// The rate, and beside it the CPU seconds of who did the work and of who serves the folder.
fn two_lines(
    buffer: &Buffer,
    &(case, unit, target, bound): &Case,
    against: &'static str,
    pairs: &[Figures],
) -> [Measurement; 2] {
    let name = format!("one mount: {case}, {}", buffer.name());
    let rates: Vec<_> = pairs.iter().map(|(ours, theirs)| (ours.rate(), theirs.rate())).collect();
    let bound = if buffer.nodes() == 1 { NOT_PROFILED } else { bound };
    let rate = Line { target, ..Line::shown(name.clone(), unit, against) }.bounded_by(bound);
    // Of small things a second would be a long time.
    let (each, amount, cpu_unit, units) =
        if unit == "MiB/s" { ("GiB", 1024.0, "s", 1.0) } else { ("1,000", 1000.0, "ms", 1000.0) };
    let cost = |figure: &Figure| figure.cpu_for(amount) * units;
    let costs: Vec<_> = pairs.iter().map(|(ours, theirs)| (cost(ours), cost(theirs))).collect();
    let line = Line::shown(format!("CPU for each {each} of {name}"), cpu_unit, against);
    [rate.of(&rates), line.of_costs(&costs)]
}

const NOT_PROFILED: &str = "not yet profiled";

/// As are those below, counted with four nodes in memory by `strace -c -f`, `/proc/PID/task/*/schedstat` and `perf`.
const ROUND_TRIP: &str = "each request is a FUSE operation and a round trip over TCP, one at a time: 25 to 47 \
    µs of CPU in the mount and 20 to 45 at the storage node, three to four task switches, and four or five \
    system calls of each; for a page that is read, one is for its checksum, from the node's log";

const COPIES: &str = "a byte is copied five times (out of the object, into the socket, out of it, into the \
    kernel's pages, to the program) and summed once: 0.87 ms of CPU for a MiB at the nodes, 0.69 in the mount, \
    0.87 in the program; the bare file system has two copies and keeps no pages";

const STAT: &str = "after a file was written the kernel asks for its attributes once: a round trip to the \
    shard, 39 µs of CPU in the mount and 22 at the node, where the bare file system makes one system call";

const CREATE: &str = "the same five FUSE requests on both sides, but four requests to storage nodes, on which \
    there are 3 openat, 1 mkdir and 4 pwrite for a file (the metadata log has two copies): 198 µs of CPU in \
    the mount, 222 at the nodes";

const READ: &str = "open, read and close are a round trip each: 127 µs of CPU in the mount and 80 at the \
    nodes, seven task switches in the mount and four at the nodes";

const REMOVE: &str = "every fragment is told to destroy its object, and looks for it twice: of 7 to 8 openat \
    for a file 6 find nothing, as a small file has one object; 205 µs of CPU at the nodes";
