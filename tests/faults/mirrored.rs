//! A node that meets an error at its start, and has confirmed what its mirror lacks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use client::{Client, Contents, Creator, Names, ROOT, RequestId::New};
use model::stripe::Layout;
use model::{FragmentIndex, Ino, InstanceId};
use tests::injection::{Call, Fault, Trace, recorded, struck};
use tests::processes::wait_until;
use wire::control::VolumeKind;
use wire::data::Credential;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, FragmentStatus, NamespaceTarget, StorageAddress};

use crate::site::{KEY, ME, Site, spec};
use crate::tried;

const INSTANCE: &str = "i1";
const FILES: u8 = 8;
const BYTES: usize = 5000;
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Two nodes that mirror each other. What the first has was written anew while the other was away, and both are
/// stopped.
struct Pair {
    nodes: [Site; 2],
    addresses: Vec<StorageAddress>,
    /// What the first node has.
    inos: Vec<Ino>,
    kept: tempfile::TempDir,
}

impl Pair {
    fn new() -> Pair {
        let mut nodes = [Site::named("n1"), Site::named("n2")];
        let addresses: Vec<_> = nodes.iter_mut().map(|node| node.start_well().data).collect();
        let kept = tempfile::tempdir().unwrap();
        let mut pair = Pair { nodes, addresses, inos: Vec::new(), kept };
        for (index, node) in (0..).zip(&pair.nodes) {
            node.make(&pair.spec(index)).unwrap();
        }
        let client = pair.client();
        let owner: &Creator = &ME;
        for n in 0..FILES {
            let ino = client.create(New, ROOT, &[b'a' + n], 0o644, owner).unwrap().ino;
            client.write(ino, 0, &[n; BYTES]).unwrap();
            client.fsync(ino).unwrap();
            if Layout::striped(2).start(ino) == FragmentIndex(0) {
                pair.inos.push(ino);
            }
        }
        pair.nodes
            .iter()
            .for_each(|node| await_settled(node, |status| status.mirrors.iter().all(|m| m.whole)));
        pair.nodes[1].stop();
        for (n, ino) in (100..).zip(&pair.inos) {
            client.write(*ino, 0, &[n; BYTES]).unwrap();
        }
        drop(client);
        pair.nodes[0].stop();
        pair.nodes.iter().for_each(|node| copy(&node.folder(), pair.kept.path()));
        pair
    }

    fn spec(&self, index: u32) -> FragmentSpec {
        let mut spec = spec(INSTANCE, VolumeKind::Directory, self.nodes[0].health().unwrap());
        spec.namespaces[0].layout = Layout::striped(2);
        spec.behaviour.mirrored = true;
        FragmentSpec { index: FragmentIndex(index), peers: self.addresses.clone(), ..spec }
    }

    fn client(&self) -> Client {
        Client::connect(&NamespaceTarget {
            instance: InstanceId::unchecked(INSTANCE),
            namespace: 0,
            credential: Key::from_hex(KEY).map(Credential::member),
            layout: Layout::striped(2),
            home: FragmentIndex(0),
            nodes: self.addresses.clone(),
            grace_ms: 10_000,
        })
        .unwrap()
    }

    /// As it was, with the second node at work.
    fn begin_again(&mut self) {
        for node in &mut self.nodes {
            node.stop();
            std::fs::remove_dir_all(node.folder()).unwrap();
            copy(&self.kept.path().join(node.folder().file_name().unwrap()), node.folder().parent().unwrap());
        }
        self.nodes[1].start_well();
    }

    /// Starts the first node, and waits until it serves or refuses.
    fn start(&mut self, trace: Option<&Trace>) {
        if self.nodes[0].start(trace).is_ok() {
            await_settled(&self.nodes[0], |_| true);
        }
    }

    fn check(&self, call: &Call) {
        await_settled(&self.nodes[0], |status| status.error.is_none());
        let client = self.client();
        for (n, ino) in (100..).zip(&self.inos) {
            let mut back = [0; BYTES];
            assert_eq!(client.read(*ino, 0, &mut back), Ok(BYTES), "{call:?}");
            assert!(back == [n; BYTES], "{call:?}: what was confirmed alone is lost");
        }
    }
}

fn copy(folder: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(folder).arg(to).status().unwrap().success());
}

fn await_settled(node: &Site, is: impl Fn(&FragmentStatus) -> bool) {
    let mut seen = None;
    let is_settled = || {
        seen = node.health().and_then(|mut health| health.fragments.pop());
        seen.as_ref().is_some_and(|status| !status.starting && is(status))
    };
    assert!(wait_until(SETTLED_WITHIN, is_settled), "{seen:?}: {}", node.log());
}

#[test]
fn an_error_of_any_call_of_a_start_puts_no_mirror_in_the_place_of_what_it_lacks() {
    let mut pair = Pair::new();
    assert!(pair.inos.len() > 1, "the first node has some files");
    pair.begin_again();
    let (log, part) = (pair.nodes[0].trace_log(), pair.nodes[0].fragments().join(INSTANCE));
    pair.start(Some(&Trace::of(Fault::None, &log)));
    let notes = ["restoring", "mirrored/0", "terms.json"];
    let mut calls: Vec<Call> = notes.iter().flat_map(|note| recorded(&log, &part.join(note))).collect();
    assert!(calls.len() >= notes.len(), "strace has seen only {calls:?}");
    calls.extend(tried(recorded(&log, &part)));
    calls.sort();
    calls.dedup();
    let mut hits = 0;
    for call in calls {
        pair.begin_again();
        pair.start(Some(&Trace::of(Fault::Error("EIO", call.clone()), &log)));
        pair.nodes[0].stop();
        hits += struck(&log);
        pair.start(None);
        pair.check(&call);
    }
    assert!(hits > notes.len(), "{hits} errors");
}
