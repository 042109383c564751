//! Buffers of which nothing is said in clear over TCP.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::{NodeName, SessionId};
use wire::data::credential::{Capability, Identity, User};
use wire::data::dial::{Via, dial};
use wire::data::hello::{self, Claim, HelloError, Key, Refusal};
use wire::data::message::XattrMode;
use wire::data::{Credential, Reply, Request, Stream};
use wire::node::{NamespaceTarget, StorageAddress};

use crate::relay::{Prank, Relay, Towards};
use crate::support::{Cluster, KEY, ME, bind, encrypted, member, pattern};

const NAME: &[u8] = b"a-name-that-is-nobody-elses";
const VALUE: &[u8] = b"a value that is in the file many times; ";

fn has(heard: &[u8], what: &[u8]) -> bool {
    heard.windows(what.len()).any(|window| window == what)
}

/// Small and large requests to and from both nodes, which copy to each other meanwhile.
fn use_it(client: &Client) {
    let ino = client.create(New, ROOT, NAME, 0o600, &ME).unwrap().ino;
    let contents = VALUE.repeat(60_000);
    for (piece, at) in contents.chunks(1 << 20).zip(0u64..) {
        client.write(ino, at << 20, piece).unwrap();
    }
    client.setxattr(New, ino, b"user.note", VALUE, XattrMode::Any).unwrap();
    client.fsync(ino).unwrap();
    let mut read = vec![0; contents.len()];
    for (piece, at) in read.chunks_mut(1 << 20).zip(0u64..) {
        assert_eq!(client.read(ino, at << 20, piece).unwrap(), piece.len());
    }
    assert!(read == contents);
    client.close(ino, true).unwrap();
    assert_eq!(client.lookup(ROOT, NAME).unwrap().size, contents.len() as u64);
}

/// What a mount and a stage show.
fn credentials(key: &str) -> [Credential; 2] {
    let user = User { uid: ME.uid, groups: vec![ME.gid] };
    [Identity::Kernel, Identity::User(user)].map(|identity| {
        let capability = Capability { identity, namespace: 0, expires_s: None };
        Credential::derive(&Key::from_hex(key).unwrap(), capability)
    })
}

/// Neither of a mount, nor of a stage, nor of the nodes among each other.
#[test]
fn neither_names_nor_contents_of_an_encrypted_buffer_are_in_clear_on_the_wire() {
    for (key, is_in_clear) in [(KEY.to_owned(), true), (encrypted(), false)] {
        let ways = credentials(&key).into_iter().flat_map(|shown| [(shown.clone(), 1), (shown, 2)]);
        for (shown, copies) in ways {
            let relay = Relay::default();
            let cluster = Cluster::start_by(&key, copies == 2, |address| relay.before(address));
            let target = NamespaceTarget { credential: Some(shown), ..cluster.target.clone() };
            use_it(&Client::connect(&target).unwrap());
            let heard = relay.heard();
            assert!(heard.len() > (1 + copies) * VALUE.len() * 60_000, "all of it came by");
            assert_eq!(has(&heard, VALUE), is_in_clear, "contents, {key}, {target:?}");
            assert_eq!(has(&heard, NAME), is_in_clear, "a name, {key}, {target:?}");
        }
    }
}

#[test]
fn who_changes_cuts_repeats_leaves_out_or_exchanges_a_record_changes_nothing_and_the_client_goes_on() {
    let relay = Relay::default();
    let cluster = Cluster::start_by(&encrypted(), true, |address| relay.before(address));
    let client = cluster.client();
    let ino = client.create(New, ROOT, NAME, 0o600, &ME).unwrap().ino;
    let mut rounds = 0;
    for prank in [Prank::Flip, Prank::Cut, Prank::Repeat, Prank::LeaveOut, Prank::Exchange] {
        for (towards, min) in [(Towards::Node, 60_000), (Towards::Client, 60_000), (Towards::Node, 1)] {
            // What is left out at the end of what is said was not said: nobody finds that before more comes.
            if min == 1 && matches!(prank, Prank::LeaveOut | Prank::Exchange) {
                continue;
            }
            rounds += 1;
            relay.play(towards, prank, min);
            let contents = pattern(1 << 20, rounds);
            client.write(ino, 0, &contents).unwrap();
            client.fsync(ino).unwrap();
            for client in [&client, &cluster.client()] {
                let mut read = vec![0; contents.len()];
                assert_eq!(client.read(ino, 0, &mut read).unwrap(), read.len());
                assert!(read == contents, "{prank:?} towards {towards:?}");
            }
            assert_eq!(relay.played(), rounds, "{prank:?} towards {towards:?}");
        }
    }
}

/// They would serve nobody any more, now or after a restart.
#[test]
fn nodes_do_not_give_up_their_place_because_somebody_in_between_says_that_others_have_it() {
    let relay = Relay::default();
    let cluster = Cluster::start_by(&encrypted(), true, |address| relay.before(address));
    let client = cluster.client();
    let ino = client.create(New, ROOT, NAME, 0o600, &ME).unwrap().ino;
    client.write(ino, 0, VALUE).unwrap();
    client.fsync(ino).unwrap();
    relay.lie();
    std::thread::scope(|scope| {
        let writes =
            scope.spawn(|| client.write(ino, 0, &pattern(1 << 20, 3)).and_then(|_| client.fsync(ino)));
        let begun = Instant::now();
        while relay.lies() < 8 && begun.elapsed() < Duration::from_secs(8) {
            std::thread::sleep(Duration::from_millis(20));
        }
        relay.be_honest();
        assert!(relay.lies() >= 8, "few have greeted a node");
        writes.join().unwrap().unwrap();
    });
    let mut read = vec![0; 1 << 20];
    assert_eq!(cluster.client().read(ino, 0, &mut read).unwrap(), read.len());
    assert!(read == pattern(1 << 20, 3));
}

fn claim() -> Claim {
    let session = SessionId([7; 16]);
    Claim { instance: "i1".parse().unwrap(), namespace: 0, fragment: 0.into(), session }
}

#[test]
fn who_speaks_in_clear_of_an_encrypted_buffer_is_refused_by_name() {
    let cluster = Cluster::start_by(&encrypted(), false, str::to_owned);
    let address = &cluster.target.nodes[0];
    let refused = dial(address, Via::Tcp, &member(), &claim()).map(drop);
    assert!(matches!(refused, Err(HelloError::Refused(Refusal::InClear))), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("over encrypted connections only"), "{text}");
    let credential = cluster.target.credential.clone().unwrap();
    let (mut connection, _) = dial(address, Via::Tcp, &credential, &claim()).unwrap();
    connection.send(1, &Request::Usage, &[]).unwrap();
    assert!(matches!(connection.receive::<Reply>().unwrap().message, Reply::Usage { .. }));
    assert!(connection.send_descriptor(std::io::stdin().as_fd()).is_err(), "it is no unix socket");
}

#[test]
fn who_is_told_to_encrypt_says_nothing_in_clear_whatever_the_other_side_wants() {
    let ways: [(&str, Key); 2] = [
        ("it has the digits, and does not encrypt", Key::from_hex(KEY).unwrap()),
        ("it has the key, and goes on as if nobody encrypted", Key::from_hex(&encrypted()).unwrap()),
    ];
    for (what, key) in ways {
        let listener = bind("127.0.0.1:0");
        let tcp = listener.local_addr().unwrap().to_string();
        let node = std::thread::spawn(move || {
            let mut stream = Stream::tcp(listener.accept().unwrap().0).unwrap();
            hello::welcome(&mut stream, 7, |_| Ok((key, ())), |_, _, ()| Ok(())).map(drop)
        });
        let address = StorageAddress { node: NodeName::literal("n0"), tcp, unix: None };
        let credential = Credential::member(Key::from_hex(&encrypted()).unwrap());
        let dialed = dial(&address, Via::Tcp, &credential, &claim()).map(drop);
        assert!(matches!(dialed, Err(HelloError::Refused(Refusal::WrongKey))), "{what}: {dialed:?}");
        assert!(node.join().unwrap().is_err(), "{what}");
    }
}

#[test]
fn on_one_machine_the_unix_socket_serves_an_encrypted_buffer_as_any_other() {
    let cluster = Cluster::start_by(&encrypted(), false, str::to_owned);
    let unix = cluster.socket(0);
    let address = StorageAddress { unix: Some(unix), ..cluster.target.nodes[0].clone() };
    let credential = cluster.target.credential.clone().unwrap();
    let (mut connection, _) = dial(&address, Via::Unix, &credential, &claim()).unwrap();
    assert!(connection.is_local());
    connection.send(1, &Request::Usage, &[]).unwrap();
    assert!(matches!(connection.receive::<Reply>().unwrap().message, Reply::Usage { .. }));
}
