//! A mover: takes the orders of a coordinator ([`crate::movers`]) until the connection ends.
//!
//! **Invariant:** it writes nothing once its coordinator has not heard of it for so long that others do its work, but
//! for the one call that each thread may be in then: see [`Lease`](crate::lease::Lease).

mod orders;
mod signs;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::Client;
use wire::data::credential::{Capability, Credential};
use wire::data::hello::{HelloError, Key};
use wire::data::{Connection, Stream, handed_over};
use wire::mover::{Answer, Errand, Order, Outcome};
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget};
use wire::ticket::{self, TicketError};

use self::orders::{all_of, copy, read_back, sums};
use crate::context::Context;
use crate::engine::Engine;
use crate::monitor::Monitor;
use crate::movers::record::path;
use crate::remote::LANES;
use crate::run::Run;
use crate::{identity, session};

/// How long threads may take to give up what they are at, once the coordinator is gone.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Why a mover ended before the stage did.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The coordinator's connection.
    #[error("lost the connection to the stage's coordinator")]
    Connection(#[from] std::io::Error),
    /// The first order was not to begin a stage.
    #[error(
        "the coordinator's first order was not to begin a stage: it is of another release, or no coordinator"
    )]
    NotBegun,
    /// The buffer's connections are encrypted, and the two could not agree on keys.
    #[error("set up encryption with the stage's coordinator")]
    Hello(#[from] HelloError),
}

/// What a mover works for.
pub struct Post<'a> {
    /// The fragment on this host, as the node keeps it.
    pub fragment: &'a FragmentSpec,
    /// The namespace in it.
    pub namespace: u32,
    /// The site allows this to be done with root's rights, for a stage of root's.
    pub as_root: bool,
    /// Folders below which stages may reach the PFS here; none: all of it.
    pub pfs_roots: Vec<PathBuf>,
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
    let stream = &take_over(stream.try_clone()?, post)?;
    let mut orders = Connection::new(stream.try_clone()?);
    let answers = Arc::new(Mutex::new(Connection::new(stream.try_clone()?)));
    let first = orders.receive::<Order>()?;
    let Order::Begin { stage, run: number, name } = first.message else { return Err(ServeError::NotBegun) };
    let (run, gives_signs) = match begin(&stage, number, name, post) {
        Ok((run, gives_signs)) => (Arc::new(run), gives_signs),
        Err(why) => return Ok(answer(&answers, first.id, &Answer::Refused(why))?),
    };
    begun(&run.monitor);
    if gives_signs {
        signs::start(stream, &answers, &run.monitor)?;
    }
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

/// Whoever has a credential for the namespace is heard; what it asks for is judged by its ticket.
fn take_over(stream: Stream, &Post { fragment, namespace, .. }: &Post<'_>) -> Result<Stream, HelloError> {
    let Some(keys) = fragment.keys() else { return Ok(stream) };
    handed_over::take_over(stream, keys, |claim| {
        let known = (&fragment.instance, namespace, fragment.index);
        (&claim.instance, claim.namespace, claim.fragment) == known
    })
}

/// Connects to the buffer, with what this host knows of it, and takes on the owner's rights. Says, too, whether the
/// coordinator asks for signs.
fn begin(stage: &[u8], number: u64, name: String, post: &Post<'_>) -> Result<(Run, bool), String> {
    let errand: Errand = serde_json::from_slice(stage).map_err(|error| error.to_string())?;
    let Errand { stage: mut spec, signs } = errand;
    let &Post { fragment, namespace, as_root, ref pfs_roots } = post;
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
    let monitor = Arc::new(Monitor::new(&spec.policy));
    let engine = Engine::new::<Client>(&spec, pfs_roots, client.hold_closes());
    let run = engine.mover(&spec, number, name, &monitor).map_err(|error| error.message)?;
    Ok((run, signs))
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
    let mut last = None;
    loop {
        let next = waiting.lock().expect("no thread panics with the lock").recv();
        let Ok((number, order)) = next else { break };
        let reply = match order {
            Order::Begin { .. } => Answer::Refused("the stage has begun".to_owned()),
            Order::Copy(part) => sums(copy(run, part)),
            Order::ReadBack(part) => sums(read_back(run, part)),
            Order::Files(files) => {
                let files = all_of(run, files);
                Answer::Files { files, remarks: run.monitor.take_remarks() }
            }
        };
        let is_sent = answer(answers, number, &reply).is_ok();
        last = Some(reply);
        if !is_sent {
            // The thread that listens sees it too.
            return give_up(run, last);
        }
    }
    if run.monitor.lease.is_over() {
        // It was sent to a coordinator that did not listen any more.
        give_up(run, last);
    }
}

/// Removes what nobody hears of: what has its name by now is not there any more.
fn give_up(context: &Context, reply: Option<Answer>) {
    let Some(Answer::Files { files, .. }) = reply else { return };
    for made in files {
        if let Outcome::Made(made) = made {
            context.give_up(path(made.place));
        }
    }
}

fn answer(answers: &Mutex<Connection>, number: u64, reply: &Answer) -> std::io::Result<()> {
    answers.lock().expect("no thread panics with the lock").send(number, reply, &[])
}
