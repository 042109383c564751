//! The disk of a mirror does not take what was written there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;
use wire::control::VolumeKind;
use wire::data::{Reply, Request, Time};

use crate::keeper::{Answer, Keeper};
use crate::restored::{await_mirrors, write};
use crate::support::{Cluster, pattern};

/// Answers as the mirror of an object with these bytes would, the first sync of which fails; tells what changes it, and
/// when the mirror is whole.
fn full_once(bytes: Vec<u8>, told: Sender<Request>) -> Arc<Answer> {
    let (size, syncs, told) = (bytes.len() as u64, AtomicUsize::new(0), Mutex::new(told));
    let is_gone = AtomicBool::new(false);
    Arc::new(move |request| {
        let reply = match *request {
            Request::FindMirror | Request::BeginMirror { .. } => {
                Reply::Mirror { life: 7, whole: true, lacking: Vec::new(), verifier: None }
            }
            Request::ListObjects { .. } => Reply::Objects(Vec::new()),
            Request::DescribeMirrored { .. } => {
                Reply::Mirrored { size, mtime: Time::default(), sealed: true, unverified: false }
            }
            Request::NextData { offset, .. } => {
                let has_data = offset < size && !is_gone.load(Ordering::Relaxed);
                Reply::Range(has_data.then_some((offset, size)))
            }
            Request::Destroy { .. } => {
                is_gone.store(true, Ordering::Relaxed);
                Reply::Done
            }
            Request::Read { offset, len, .. } => {
                let start = usize::try_from(offset).unwrap().min(bytes.len());
                return Some((Reply::Data, bytes[start..bytes.len().min(start + len as usize)].to_vec()));
            }
            Request::Sync { .. } if syncs.fetch_add(1, Ordering::Relaxed) == 0 => {
                Reply::Failed(Errno::NOSPC.raw_os_error())
            }
            Request::Write { .. } | Request::NoteMirror { whole: true, .. } => {
                told.lock().unwrap().send(request.clone()).unwrap_or_default();
                Reply::Stored { mtime: Time::default() }
            }
            Request::FindMeeting => Reply::Meeting(0),
            Request::FindCopy => Reply::Failed(Errno::NOSPC.raw_os_error()),
            _ => Reply::Done,
        };
        Some((reply, Vec::new()))
    })
}

#[test]
fn what_a_sync_of_the_mirror_failed_on_is_written_there_again() {
    let cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 384 << 20);
    let client = cluster.client();
    // On the first node, whose mirror is on the second.
    write(&client, "file", 60 << 10, 1);
    await_mirrors(&cluster);
    cluster.servers[1].shutdown();
    let (tells, told) = channel();
    let _full = Keeper::start(&cluster.target.nodes[1].tcp, full_once(pattern(60 << 10, 1), tells));
    let first = told.recv_timeout(Duration::from_secs(30)).expect("the mirror is filled");
    assert!(matches!(first, Request::Write { .. }), "{first:?}: what may not be on its disk is called whole");
}
