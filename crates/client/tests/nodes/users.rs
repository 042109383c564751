//! Clients that work for users, and what only a credential lets nobody do.

use client::{Client, ConnectError, Contents, Names, RequestId::New};
use model::{FragmentIndex, Ino, InstanceId, SessionId};
use rustix::io::Errno;
use wire::data::connection::encode;
use wire::data::credential::{Capability, Credential, Grant, Holder, Identity, User};
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError, Key, Refusal};
use wire::data::member::{Member, Role};
use wire::data::{Connection, Creator, ROOT, Reply, Request, SetAttr};
use wire::node::NamespaceTarget;

use crate::support::{Cluster, KEY, ME, pattern};
use crate::told::{BYTES, refused};

const OTHER: u32 = 4711;
const SESSION: SessionId = SessionId([9; 16]);

fn key() -> Key {
    Key::from_hex(KEY).unwrap()
}

fn credential(identity: Identity) -> Credential {
    Credential::derive(&key(), Capability { identity, namespace: 0, expires_s: None })
}

fn other() -> Credential {
    credential(Identity::User(User { uid: OTHER, groups: vec![OTHER] }))
}

fn target(cluster: &Cluster, credential: Credential) -> NamespaceTarget {
    NamespaceTarget { credential: Some(credential), ..cluster.target.clone() }
}

fn connect(
    cluster: &Cluster,
    fragment: FragmentIndex,
    credential: &Credential,
    session: SessionId,
) -> Connection {
    let claim = Claim { instance: InstanceId::literal("i1"), namespace: 0, fragment, session };
    dial(&cluster.target.nodes[fragment.place()], Via::Tcp, credential, &claim).unwrap().0
}

fn ask(connection: &mut Connection, request: &Request) -> Reply {
    connection.send(1, request, &[]).unwrap();
    let frame = connection.receive::<Reply>().unwrap();
    connection.payload(&mut vec![0; frame.payload_len]).unwrap();
    frame.message
}

fn failed(errno: Errno) -> Reply {
    Reply::Failed(errno.raw_os_error())
}

/// A file of ours on all three nodes, in a folder that everybody may search.
fn with_a_file(mode: u32) -> (Cluster, Client, Ino, Vec<u8>) {
    let cluster = Cluster::start(3, 16 << 20);
    let client = cluster.client();
    client.setattr(New, ROOT, &SetAttr { mode: Some(0o1777), ..SetAttr::default() }).unwrap();
    let (ino, bytes) = (client.create(New, ROOT, b"f", mode, &ME).unwrap().ino, pattern(1 << 20, 3));
    client.write(ino, 0, &bytes).unwrap();
    client.fsync(ino).unwrap();
    client.close(ino, true).unwrap();
    (cluster, client, ino, bytes)
}

#[test]
fn objects_are_refused_to_users_without_a_grant() {
    let (cluster, owner, ino, bytes) = with_a_file(0o600);
    let user = Client::connect(&target(&cluster, other())).unwrap();
    assert_eq!(user.open(ino, false), Err(Errno::ACCESS));
    let read = Request::Read { ino, offset: 0, len: 10 };
    let write = Request::Write { ino, offset: 0 };
    let shown = |grant: Grant, request: &Request| Request::Granted { grant, request: encode(request) };
    let holder = Holder { uid: OTHER, session: SESSION };
    for fragment in FragmentIndex::all(3) {
        let mut connection = connect(&cluster, fragment, &other(), SESSION);
        for request in [&read, &write, &Request::NextData { ino, offset: 0 }] {
            assert_eq!(ask(&mut connection, request), failed(Errno::ACCESS), "{fragment} {request:?}");
        }
        let guessed = Grant::give(&Key::from_hex(&"ab".repeat(32)).unwrap(), holder, ino, true, true);
        let anothers = Grant::give(&key(), Holder { uid: ME.uid, ..holder }, ino, true, true);
        let of_another = Grant::give(&key(), holder, ino + 1, true, true);
        let to_read = Grant::give(&key(), holder, ino, true, false);
        for (grant, request) in [(guessed, &read), (anothers, &read), (of_another, &read), (to_read, &write)]
        {
            assert_eq!(ask(&mut connection, &shown(grant, request)), failed(Errno::ACCESS), "{fragment}");
        }
        assert_eq!(
            ask(&mut connection, &shown(to_read, &read)),
            Reply::Data,
            "a good one: the rest shows nothing"
        );
    }
    owner.setattr(New, ino, &SetAttr { mode: Some(0o644), ..SetAttr::default() }).unwrap();
    user.open(ino, false).unwrap();
    let mut found = vec![0; bytes.len()];
    assert_eq!(user.read(ino, 0, &mut found).unwrap(), bytes.len());
    assert!(found == bytes);
    assert_eq!(user.write(ino, 0, b"x"), Err(Errno::ACCESS), "it is open for reading alone");
}

#[test]
fn what_a_user_has_open_stays_so_over_a_restart_of_all_nodes() {
    let (mut cluster, owner, ino, bytes) = with_a_file(0o644);
    drop(owner);
    let user = Client::connect(&target(&cluster, other())).unwrap();
    let creator = Creator { uid: OTHER, gid: OTHER, umask: 0 };
    let own = user.create(New, ROOT, b"own", 0o600, &creator).unwrap().ino;
    user.open(ino, false).unwrap();
    for n in 0..3 {
        cluster.servers[n].shutdown();
        let tcp = cluster.target.nodes[n].tcp.clone();
        cluster.servers[n] = cluster.serve(n, &tcp);
    }
    let mut found = vec![0; bytes.len()];
    assert_eq!(user.read(ino, 0, &mut found).unwrap(), bytes.len());
    assert!(found == bytes);
    user.write(own, 0, &bytes).unwrap();
    user.fsync(own).unwrap();
    user.close(own, true).unwrap();
    user.close(ino, false).unwrap();
    let attr = user.lookup(ROOT, b"own").unwrap();
    assert_eq!((attr.size, attr.uid, attr.gid), (bytes.len() as u64, OTHER, OTHER));
}

#[test]
fn who_only_has_a_credential_is_no_storage_node() {
    let (cluster, _owner, ino, _) = with_a_file(0o600);
    for credential in [credential(Identity::Kernel), other()] {
        for role in [Role::Copying, Role::Mirroring, Role::Following, Role::Repairing] {
            let session = Member { role, fragment: FragmentIndex(1), term: 9 }.session();
            let claim = Claim {
                instance: InstanceId::literal("i1"),
                namespace: 0,
                fragment: FragmentIndex(0),
                session,
            };
            let refused = dial(&cluster.target.nodes[0], Via::Tcp, &credential, &claim).map(drop);
            assert!(
                matches!(refused, Err(HelloError::Refused(Refusal::WrongKey | Refusal::NoSuchFragment))),
                "{role:?}: {refused:?}"
            );
        }
        let mut connection = connect(&cluster, FragmentIndex(0), &credential, SESSION);
        for request in [
            Request::Destroy { ino },
            Request::DestroyForGood { inos: vec![ino] },
            Request::Resize { ino, size: 0 },
            Request::ListObjects { after: Ino(0) },
            Request::ListMeant { fragment: FragmentIndex(1), after: Ino(0) },
        ] {
            assert_eq!(ask(&mut connection, &request), failed(Errno::PERM), "{request:?}");
        }
    }
    let mount = Client::connect(&target(&cluster, credential(Identity::Kernel))).unwrap();
    mount.open(ino, true).unwrap();
    mount.write(ino, 0, b"the kernel has checked").unwrap();
    let none = NamespaceTarget { credential: None, ..cluster.target.clone() };
    assert!(matches!(Client::connect(&none), Err(ConnectError::Credential { .. })));
}

#[test]
fn a_mount_that_squashes_root_makes_nothing_of_root_s_and_is_told_what_nobody_may() {
    let (cluster, owner, ino, _) = with_a_file(0o600);
    let mount = Client::connect(&target(&cluster, credential(Identity::SquashingKernel))).unwrap();
    assert!(mount.squashes_root() && !owner.squashes_root());
    let root = Creator { uid: 0, gid: 0, umask: 0 };
    assert_eq!(mount.create(New, ROOT, b"roots", 0o600, &root).unwrap_err(), Errno::PERM);
    assert_eq!(mount.mkdir(New, ROOT, b"roots", 0o700, &root).unwrap_err(), Errno::PERM);
    let given = SetAttr { uid: Some(0), ..SetAttr::default() };
    assert_eq!(mount.setattr(New, ino, &given).unwrap_err(), Errno::PERM);
    // That another process of the mount has it open is no reason.
    mount.open(ino, true).unwrap();
    let open = Request::Open { ino, write: true };
    assert_eq!(mount.may_nobody(&open), Err(Errno::ACCESS));
    owner.setattr(New, ino, &SetAttr { mode: Some(0o666), ..SetAttr::default() }).unwrap();
    assert_eq!(mount.may_nobody(&open), Ok(()));
    // What is below a closed folder is closed, whatever its own mode.
    let closed = owner.mkdir(New, ROOT, b"closed", 0o700, &ME).unwrap().ino;
    owner.rename(New, ROOT, b"f", closed, b"f", wire::data::message::RenameMode::Replace).unwrap();
    assert_eq!(mount.may_nobody(&open), Err(Errno::ACCESS));
    assert_eq!(mount.may_nobody(&Request::Destroy { ino }), Err(Errno::PERM));
}

/// The files that a stage would refuse after a node has lost its power, and a user's client has ended meanwhile; and
/// the file that it had written to.
fn left_by_a_user(end: impl Fn(&Client, Ino)) -> (Vec<Ino>, Ino) {
    let (mut cluster, client, ino, _) = with_a_file(0o666);
    drop(client);
    let user = Client::connect(&target(&cluster, other())).unwrap();
    user.open(ino, true).unwrap();
    user.write(ino, 0, &pattern(BYTES, 7)).unwrap();
    end(&user, ino);
    cluster.lose_power_and(1, |_| drop(user));
    (refused(&cluster), ino)
}

#[test]
fn what_the_client_of_a_user_left_unconfirmed_when_it_ended_is_known() {
    let (refused, ino) = left_by_a_user(|_, _| {});
    assert_eq!(refused, [ino]);
}

#[test]
fn what_the_client_of_a_user_has_confirmed_is_no_loss() {
    let (refused, _) = left_by_a_user(|user, ino| {
        user.fsync_by(ino, user.handle()).unwrap();
        user.close(ino, true).unwrap();
    });
    assert_eq!(refused, []);
}

#[test]
fn a_user_whose_session_goes_on_after_its_end_has_lost_nothing_that_others_wrote() {
    let mut cluster = Cluster::start(2, 64 << 20);
    let target = target(&cluster, other());
    // As each run of a stage-out does, that only reads.
    for _ in 0..2 {
        let run = Client::resume(&target, SESSION, Default::default(), Default::default()).unwrap();
        run.getattr(ROOT).unwrap();
        drop(run);
    }
    cluster.lose_power(1);
    assert_eq!(refused(&cluster), []);
}
