//! A mover: takes the orders of a coordinator until the connection ends.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::Client;
use wire::data::credential::{Capability, Credential};
use wire::data::hello::Key;
use wire::data::{Attr, Connection, Stream};
use wire::mover::{Answer, Known, Made, Order, Outcome, Part, WholeFile};
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget, StageSpec};
use wire::ticket::{self, TicketError};

use super::record::{self, bytes, path, runs};
use crate::batch;
use crate::content::{self, Opened};
use crate::context::Context;
use crate::engine::Engine;
use crate::fault::{Fault, Tried};
use crate::identity;
use crate::monitor::Monitor;
use crate::pfs::Pfs;
use crate::regular::{self, Copy};
use crate::remote::LANES;
use crate::run::Run;
use crate::session;
use crate::tree::{Found, Tree};

/// How long threads may take to give up what they are at, once the coordinator is gone.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Why a mover ended before the stage did.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The coordinator's connection.
    #[error("speak to the coordinator of the stage")]
    Connection(#[from] std::io::Error),
    /// A thread could not be started, or the first order was another.
    #[error("the coordinator did not begin with a stage")]
    NotBegun,
}

/// What a mover works for.
pub struct Post<'a> {
    /// The fragment on this host, as the node keeps it.
    pub fragment: &'a FragmentSpec,
    /// The namespace in it.
    pub namespace: u32,
    /// The site allows this to be done with root's rights, for a stage of root's.
    pub as_root: bool,
    /// What stages may reach here.
    pub pfs: Pfs,
}

/// Works for the coordinator behind `stream` until the connection ends. The process is to end then, whatever its
/// threads still do: nobody waits for it. `begun` is given the monitor, which takes the node's orders, before the first
/// file.
///
/// The calling thread, and those that it starts, take on the rights of the owner of the namespace.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(stream: &Stream, post: &Post<'_>, begun: impl FnOnce(&Arc<Monitor>)) -> Result<(), ServeError> {
    let mut orders = Connection::new(stream.try_clone()?);
    let answers = Arc::new(Mutex::new(Connection::new(stream.try_clone()?)));
    let first = orders.receive::<Order>()?;
    let Order::Begin { stage, run: number, name } = first.message else { return Err(ServeError::NotBegun) };
    let run = match begin(&stage, number, name, post) {
        Ok(run) => Arc::new(run),
        Err(why) => return Ok(answer(&answers, first.id, &Answer::Refused(why))?),
    };
    begun(&run.monitor);
    answer(&answers, first.id, &Answer::Ready)?;
    let (sender, waiting) = channel::<(u64, Order)>();
    let waiting = Arc::new(Mutex::new(waiting));
    let mut threads = Vec::new();
    for _ in 0..LANES {
        let (waiting, answers, run) = (waiting.clone(), answers.clone(), run.clone());
        let work = move || work(&waiting, &answers, &run);
        threads.push(std::thread::Builder::new().name("mover".into()).spawn(work)?);
    }
    let end = loop {
        match orders.receive::<Order>() {
            Ok(frame) => drop(sender.send((frame.id, frame.message))),
            Err(end) => break end,
        }
    };
    drop(sender);
    // Nothing stays of what they are at: they have until the coordinator has others do it.
    run.monitor.cancel();
    let give_up = Instant::now() + END_WITHIN;
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < give_up {
        std::thread::sleep(END_WITHIN / 500);
    }
    if end.kind() == std::io::ErrorKind::UnexpectedEof { Ok(()) } else { Err(end.into()) }
}

/// Connects to the buffer, with what this host knows of it, and takes on the owner's rights.
fn begin(stage: &[u8], number: u64, name: String, post: &Post<'_>) -> Result<Run, String> {
    let mut spec: StageSpec = serde_json::from_slice(stage).map_err(|error| error.to_string())?;
    let &Post { fragment, namespace, as_root, ref pfs } = post;
    let known = fragment.namespaces.iter().find(|known| known.id == namespace);
    let known = known.ok_or("it does not have the namespace")?;
    // A node that stores has the buffer's key. That makes it no user of the PFS: control must have given the stage.
    let is_of_this = (&spec.target.instance, spec.target.namespace) == (&fragment.instance, namespace);
    let checked =
        if is_of_this { ticket::check(&fragment.stage_verifier, &spec) } else { Err(TicketError::NotOfThis) };
    checked.map_err(|error| error.to_string())?;
    if spec.owner.uid == 0 && !as_root {
        let why = "it does not copy with root's rights for other nodes (movers_as_root in its configuration)";
        return Err(why.to_owned());
    }
    if known.owner != spec.owner {
        let (owner, other) = (known.owner.uid, spec.owner.uid);
        return Err(format!("the buffer belongs to user {owner}, the stage to {other}"));
    }
    let user = identity::user(&spec.owner).map_err(|error| error.to_string())?;
    let key = Key::from_hex(&fragment.key).ok_or("the fragment here has no key")?;
    spec.target = target(fragment, known, Credential::derive(&key, Capability::of_stage(user, namespace)));
    let client = session::of_mover(&spec, &name, &key).map_err(|error| error.to_string())?;
    identity::assume(&spec.owner).map_err(|error| error.to_string())?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // The coordinator keeps the pace of all; what this node has left for it, the node says.
    spec.policy.bandwidth_bytes_per_s = None;
    let monitor = Arc::new(Monitor::new(&spec));
    let engine = Engine::new::<Client>(&spec, pfs.clone(), client.hold_closes());
    engine.mover(&spec, number, name, &monitor).map_err(|error| error.message)
}

fn target(fragment: &FragmentSpec, known: &NamespaceSpec, credential: Credential) -> NamespaceTarget {
    NamespaceTarget {
        instance: fragment.instance.clone(),
        namespace: known.id,
        credential: Some(credential),
        layout: known.layout,
        home: known.home,
        nodes: fragment.peers.clone(),
        grace_ms: fragment.grace_ms,
    }
}

fn work(waiting: &Mutex<Receiver<(u64, Order)>>, answers: &Mutex<Connection>, run: &Arc<Run>) {
    loop {
        let next = waiting.lock().expect("no thread panics with the lock").recv();
        let Ok((number, order)) = next else { return };
        let reply = match order {
            Order::Begin { .. } => Answer::Refused("the stage has begun".to_owned()),
            Order::Copy(part) => sums(copy(run, part)),
            Order::ReadBack(part) => sums(read_back(run, part)),
            Order::Files(files) => {
                let files = all_of(run, files);
                Answer::Files { files, remarks: run.monitor.take_remarks() }
            }
        };
        if answer(answers, number, &reply).is_err() {
            // The thread that listens sees it too.
            return give_up(run, &reply);
        }
    }
}

/// Removes what nobody hears of.
fn give_up(context: &Context, reply: &Answer) {
    let Answer::Files { files, .. } = reply else { return };
    for made in files {
        if let Outcome::Made(made) = made {
            context.give_up(path(made.place.clone()));
        }
    }
}

fn answer(answers: &Mutex<Connection>, number: u64, reply: &Answer) -> std::io::Result<()> {
    answers.lock().expect("no thread panics with the lock").send(number, reply, &[])
}

/// Why something is not done.
enum Refused {
    Foreign(String),
    Fault(Fault),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        Refused::Fault(fault)
    }
}

fn sums(outcome: Result<Vec<u32>, Refused>) -> Answer {
    match outcome {
        Ok(sums) => Answer::Sums(sums),
        Err(Refused::Foreign(why)) => Answer::Foreign(why),
        Err(Refused::Fault(fault)) => Answer::Failed(record::sent(&fault)),
    }
}

/// Copies blocks onto stable storage.
fn copy(context: &Context, part: Part) -> Result<Vec<u32>, Refused> {
    let (source, made) = (&*context.sides.source, &*context.sides.target);
    let found = recognise(source, &part.source)?;
    let place = recognise(made, &part.made)?;
    let (name, runs) = (path(part.target), runs(&part.runs));
    let file = source.open(&found).tried(source, &found.path, "open for reading")?;
    let from = Opened {
        tree: context.sides.source.clone(),
        path: found.path,
        file: file.into(),
        sparse: part.sparse,
    };
    let file = made.reopen(&place).tried(made, &name, "open for writing")?;
    let to = Opened { tree: context.sides.target.clone(), path: name, file: file.into(), sparse: false };
    let sums = content::copy(context, &from, &to, found.attr.size, &runs, |piece| {
        if matches!(piece, content::Piece::Data(..)) {
            context.pace_here(piece.length());
        }
    })?;
    to.file.sync().tried(made, &to.path, "fsync")?;
    to.file.close().tried(made, &to.path, "close")?;
    Ok(sums)
}

/// Reads blocks of the copy back.
fn read_back(context: &Context, part: Part) -> Result<Vec<u32>, Refused> {
    let made = &*context.sides.target;
    let place = recognise(made, &part.made)?;
    let name = path(part.target);
    let file = made.open(&place).tried(made, &name, "open for reading")?;
    file.forget_cached().tried(made, &name, "drop the cache of")?;
    let from: Opened =
        Opened { tree: context.sides.target.clone(), path: name, file: file.into(), sparse: part.sparse };
    let size = part.source.attr.size;
    Ok(content::read(context, &from, size, &runs(&part.runs), |piece| {
        context.pace_reading_here(from.tree.side(), piece.length());
        Ok(())
    })?)
}

/// Copies whole files, up to their names.
fn all_of(run: &Arc<Run>, files: Vec<WholeFile>) -> Vec<Outcome> {
    let recognised: Vec<_> = files.into_iter().map(|file| recognise_both(run, file)).collect();
    let tasks = recognised.iter().flatten().map(|(_, source, target)| (source, target.as_path())).collect();
    let folder = recognised.iter().flatten().map(|(folder, ..)| folder).next();
    let made = folder.map(|folder| batch::make(run, folder, tasks));
    let mut made = made.into_iter().flatten();
    let mut outcomes = Vec::new();
    for known in &recognised {
        outcomes.push(match known {
            Ok((_, source, target)) => {
                let made = made.next().expect("a batch tells of each of its files");
                finished(run, source, target, made)
            }
            Err(Refused::Foreign(why)) => Outcome::Foreign(why.clone()),
            Err(Refused::Fault(fault)) => Outcome::Failed(record::sent(fault)),
        });
    }
    outcomes
}

/// The folder and the source as they are here, and the name.
fn recognise_both(context: &Context, file: WholeFile) -> Result<(Found, Found, PathBuf), Refused> {
    let folder = recognise(&*context.sides.target, &file.folder)?;
    let source = recognise(&*context.sides.source, &file.source)?;
    Ok((folder, source, path(file.target)))
}

/// What became of a file that was in a batch, after more tries if need be.
fn finished(run: &Arc<Run>, source: &Found, target: &Path, made: batch::Made<'_>) -> Outcome {
    let kept = |copy: Copy<'_>| (copy.made, copy.part.keep(), copy.done);
    let mut attempts = u32::from(!matches!(made, batch::Made::Alone));
    let again = || {
        attempts += 1;
        regular::make(run, source, target, attempts).map(kept)
    };
    let outcome = match made {
        batch::Made::Copy(copy) => Ok(kept(*copy)),
        batch::Made::Failed(fault) => run.retrying_after(Err(fault), again),
        batch::Made::Alone => run.retrying(again),
    };
    match outcome {
        Ok((made, place, done)) => Outcome::Made(Made {
            place: bytes(&place),
            attr: made.attr,
            size: done.size,
            mtime: done.mtime,
            crc32c: done.crc32c,
            attempts: done.attempts,
            verified: done.verified,
            finished_ms: done.finished_ms,
        }),
        Err(fault) => Outcome::Failed(record::sent(&fault)),
    }
}

/// The entry as it is here, if it is the one that the coordinator means.
fn recognise(tree: &dyn Tree, known: &Known) -> Result<Found, Refused> {
    let place = path(known.path.clone());
    let foreign = |what: &str| Refused::Foreign(format!("{} {what} there", tree.show(&place)));
    let found = tree.find(&place).map_err(|errno| foreign(&format!("cannot be looked up ({errno})")))?;
    let is_same = |attr: &Attr| (attr.ino, attr.kind) == (known.attr.ino, known.attr.kind);
    if is_same(&found.attr) { Ok(found) } else { Err(foreign("is another file")) }
}
