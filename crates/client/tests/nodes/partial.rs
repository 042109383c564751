//! Changes of a file that succeed in part: its size is where what can be read ends.

use client::{Client, Contents, Errno, Names, ROOT, RequestId::New};
use model::{FragmentIndex, Ino};

use crate::support::{Cluster, ME, pattern};

const STRIPE: u64 = 65_536;

/// The first stripe of the file that lies on this fragment.
fn stripe_on(client: &Client, ino: Ino, fragment: FragmentIndex) -> u64 {
    (0..3).find(|stripe| client.place(ino, stripe * STRIPE, 1).unwrap().0 == fragment).unwrap()
}

fn restart(cluster: &mut Cluster, n: usize) {
    let address = cluster.target.nodes[n].tcp.clone();
    cluster.servers[n] = cluster.serve(n, &address);
}

#[track_caller]
fn assert_ends_where_it_says(client: &Client, ino: Ino) {
    let size = client.getattr(ino).unwrap().size;
    for at in (0..8).map(|stripe| (stripe * STRIPE).max(size)) {
        assert_eq!(client.read(ino, at, &mut [0; 100]), Ok(0), "the file has {size} bytes, and some at {at}");
    }
}

#[test]
fn of_a_write_that_failed_in_part_the_size_is_where_what_can_be_read_ends() {
    let mut cluster = Cluster::start(3, 64 << 20);
    cluster.target.grace_ms = 300;
    let client = cluster.client();
    let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
    let first = stripe_on(&client, ino, FragmentIndex(1));
    cluster.servers[1].shutdown();
    let bytes = pattern(3 * 65_536, 1);
    assert_eq!(client.write(ino, first * STRIPE, &bytes), Err(Errno::IO));
    restart(&mut cluster, 1);
    // Whoever was given up is looked for twice a second.
    while client.read(ino, first * STRIPE, &mut [0; 100]).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    client.close(ino, true).unwrap();
    let other = cluster.client();
    assert_eq!(other.getattr(ino).unwrap().size, (first + 3) * STRIPE);
    assert_ends_where_it_says(&other, ino);
}
