//! A client whose session the home gave up, while its connections to other nodes lived.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, Contents, Errno, Names, ROOT, RequestId::New, SetAttr};
use model::Ino;

use crate::sessions::cutting_relay;
use crate::support::{Cluster, ME};

const STRIPE: u64 = 65_536;

/// Three files of four stripes.
fn files(of: &Client) -> [Ino; 3] {
    [&b"kept"[..], b"cut off", b"gone"].map(|name| {
        let ino = of.create(New, ROOT, name, 0o644, &ME).unwrap().ino;
        of.write(ino, 0, &[1; 4 * STRIPE as usize]).unwrap();
        of.close(ino, true).unwrap();
        ino
    })
}

/// One file is written to, and one cut off and written to.
fn change(by: &Client, kept: Ino, cut_off: Ino) {
    by.open(kept, true).unwrap();
    by.write(kept, 0, &[2; 4 * STRIPE as usize]).unwrap();
    by.close(kept, true).unwrap();
    by.open(cut_off, true).unwrap();
    by.setattr(New, cut_off, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    by.write(cut_off, 3 * STRIPE, &[3; 10]).unwrap();
    by.close(cut_off, true).unwrap();
}

type Read = client::Result<(usize, [u8; 10])>;

/// What is at the start of each stripe of the files.
fn read(by: &Client, inos: [Ino; 3]) -> Vec<[Read; 3]> {
    let at = |ino, stripe| {
        let mut bytes = [9; 10];
        by.read(ino, stripe * STRIPE, &mut bytes).map(|len| (len, bytes))
    };
    (0..4).map(|stripe| inos.map(|ino| at(ino, stripe))).collect()
}

#[test]
fn who_was_away_for_the_grace_period_reads_what_others_wrote_meanwhile_from_every_node() {
    let cluster = Cluster::start_with_grace(2, 200);
    let other = cluster.client();
    let [kept, cut_off, gone] = files(&other);
    // Only the home does not hear of it any more; its connections to the other node live.
    let (armed, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut target = cluster.target.clone();
    target.nodes[0].tcp = cutting_relay(target.nodes[0].tcp.clone(), Arc::clone(&armed), Arc::clone(&cut));
    let client = Client::connect(&target).unwrap();
    let mut bytes = [0; 10];
    for ino in [kept, cut_off, gone] {
        client.open(ino, false).unwrap();
        for stripe in 0..4 {
            assert_eq!(client.read(ino, stripe * STRIPE, &mut bytes), Ok(10));
        }
    }
    other.unlink(New, ROOT, b"gone").unwrap();
    armed.store(true, Ordering::SeqCst);
    cut.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| client.getattr(kept).is_ok());
        while other.getattr(gone) != Err(Errno::STALE) {
            std::thread::yield_now();
        }
        change(&other, kept, cut_off);
        // These are answered without the home, where they can be.
        let reads = scope.spawn(|| read(&client, [kept, cut_off, gone]));
        std::thread::sleep(std::time::Duration::from_millis(100));
        armed.store(false, Ordering::SeqCst);
        cut.store(false, Ordering::SeqCst);
        for (stripe, [kept, cut_off, gone]) in reads.join().unwrap().into_iter().enumerate() {
            assert_eq!(kept, Ok((10, [2; 10])), "stripe {stripe}: what was written meanwhile");
            let after_cut = if stripe == 3 { [3; 10] } else { [0; 10] };
            assert_eq!(cut_off, Ok((10, after_cut)), "stripe {stripe}: what was cut off meanwhile");
            assert_eq!(gone, Err(Errno::STALE), "stripe {stripe}: what was there is not");
        }
        assert!(asks.join().unwrap());
    });
}
