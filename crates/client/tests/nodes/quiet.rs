//! Clients that end without a word, whether everything was confirmed by then or not.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, Contents, Names};
use model::Ino;

use crate::support::{Cluster, pattern};
use crate::told::{BYTES, HOME, OTHER, made, refused};

/// Nothing of the client is said any more, and its thread ends.
pub(crate) fn die(client: Arc<Client>) {
    let mut shared = client;
    loop {
        match Arc::try_unwrap(shared) {
            Ok(client) => return std::mem::forget(client),
            Err(held) => shared = held,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What is left of a client that ends without a word, where a node loses its power afterwards: the files that a stage
/// would refuse.
fn refused_after(end: impl Fn(&Arc<Client>) -> Ino) -> Vec<Ino> {
    let mut cluster = Cluster::start_with_grace(3, 1000);
    let writer = Arc::new(cluster.client());
    writer.confirm_with_age();
    let ino = end(&writer);
    let found = |client: &Client| {
        let mut bytes = vec![0; BYTES];
        client.read(ino, 0, &mut bytes).unwrap();
        bytes == pattern(BYTES, 1)
    };
    die(writer);
    cluster.lose_power(OTHER);
    cluster.lose_power(HOME);
    std::thread::sleep(Duration::from_secs(5));
    let refused = refused(&cluster);
    assert!(!refused.is_empty() || found(&cluster.client()), "it was lost, and no stage refuses it");
    refused
}

/// Any file may have lost something, and names, as the home lost its power as well.
const LOST: [Ino; 2] = [Ino(0), Ino(u64::MAX)];

/// The client has said that everything is confirmed after this.
pub(crate) const QUIET_AFTER: Duration = Duration::from_secs(35);

#[test]
fn a_client_that_had_confirmed_everything_and_never_comes_back_has_lost_nothing() {
    let refused = refused_after(|writer| {
        let ino = made(writer, "file");
        writer.fsync_by(ino, writer.handle()).unwrap();
        writer.close(ino, true).unwrap();
        std::thread::sleep(QUIET_AFTER);
        ino
    });
    assert_eq!(refused, [Ino(0); 0]);
}

#[test]
fn who_has_a_file_open_may_have_written_to_it_at_any_moment() {
    let refused = refused_after(|writer| {
        let ino = made(writer, "file");
        writer.fsync_by(ino, writer.handle()).unwrap();
        std::thread::sleep(QUIET_AFTER);
        ino
    });
    assert_eq!(refused, LOST);
}

#[test]
fn what_is_old_is_confirmed_though_no_program_asks_for_it() {
    let refused = refused_after(|writer| {
        let ino = made(writer, "file");
        writer.close(ino, true).unwrap();
        std::thread::sleep(QUIET_AFTER);
        ino
    });
    assert_eq!(refused, [Ino(0); 0]);
}

#[test]
fn who_writes_again_after_everything_was_confirmed_may_have_lost_something() {
    let refused = refused_after(|writer| {
        let ino = made(writer, "file");
        writer.close(ino, true).unwrap();
        std::thread::sleep(QUIET_AFTER);
        writer.open(ino, true).unwrap();
        writer.write(ino, 0, &pattern(BYTES, 2)).unwrap();
        writer.close(ino, true).unwrap();
        ino
    });
    assert_eq!(refused, LOST);
}
