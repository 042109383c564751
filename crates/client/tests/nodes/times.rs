//! Times of files: set, written and closed, in every order.

use client::{Client, Contents, Held, Names, ROOT, RequestId::New, SetAttr, Time};

use crate::support::{Cluster, ME, everywhere};

#[test]
fn a_time_that_was_set_after_writing_survives_the_close() {
    everywhere(|_, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, b"data").unwrap();
        let then = Time { seconds: 1_000_000_000, nanos: 123_456_789 };
        client.setattr(New, ino, &SetAttr { mtime: Some(then), ..SetAttr::default() }).unwrap();
        assert_eq!(client.getattr(ino).unwrap().mtime, then);
        client.close(ino, true).unwrap();
        assert_eq!(client.getattr(ino).unwrap().mtime, then);
        client.open(ino, true).unwrap();
        client.write(ino, 0, b"more").unwrap();
        assert!(client.getattr(ino).unwrap().mtime > then);
        client.close(ino, true).unwrap();
        assert!(client.getattr(ino).unwrap().mtime > then);
    });
}

#[test]
fn closing_a_file_changes_no_time() {
    everywhere(|cluster, client| {
        let other = cluster.client();
        let times = |ino| other.getattr(ino).map(|attr| (attr.mtime, attr.ctime)).unwrap();
        for n in 0..50 {
            let name = format!("f{n}").into_bytes();
            let ino = client.create(New, ROOT, &name, 0o644, &ME).unwrap().ino;
            client.write(ino, 0, b"made and written within a tick of the clock of file systems").unwrap();
            let before = times(ino);
            client.close(ino, true).unwrap();
            assert_eq!(times(ino), before, "after it was made");
            client.open(ino, true).unwrap();
            client.setattr(New, ino, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
            client.write(ino, 0, b"written anew").unwrap();
            let before = times(ino);
            client.close(ino, true).unwrap();
            assert_eq!(times(ino), before, "after it was written anew");
        }
    });
}

#[test]
fn a_write_takes_back_a_time_in_the_future() {
    everywhere(|cluster, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        let then = Time { seconds: 5_000_000_000, nanos: 0 };
        client.setattr(New, ino, &SetAttr { mtime: Some(then), ..SetAttr::default() }).unwrap();
        assert_eq!(cluster.client().getattr(ino).unwrap().mtime, then);
        // Longer than a tick of the clock by which file systems date writes.
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.write(ino, 0, b"data").unwrap();
        assert!(client.getattr(ino).unwrap().mtime < then);
        assert!(cluster.client().getattr(ino).unwrap().mtime < then);
        client.close(ino, true).unwrap();
        assert!(client.getattr(ino).unwrap().mtime < then);
    });
}

#[test]
fn a_time_that_is_set_while_the_close_is_under_way_is_the_last_word() {
    let cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client();
    let then = Time { seconds: 1_000_000_000, nanos: 5 };
    for n in 0..200 {
        let name = format!("f{n}").into_bytes();
        let ino = client.create(New, ROOT, &name, 0o644, &ME).unwrap().ino;
        client.write(ino, 0, b"data").unwrap();
        // The kernel closes in the background, as here.
        std::thread::scope(|scope| {
            scope.spawn(|| client.close(ino, true).unwrap());
            client.setattr(New, ino, &SetAttr { mtime: Some(then), ..SetAttr::default() }).unwrap();
        });
        assert_eq!(client.getattr(ino).unwrap().mtime, then, "round {n}");
        assert_eq!(client.getattr(ino).unwrap().size, 4);
    }
}

#[test]
fn a_time_that_was_set_holds_for_a_client_that_does_not_know_what_was_written_before() {
    let cluster = Cluster::start(3, 64 << 20);
    let first = cluster.client();
    let ino = first.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
    first.write(ino, 0, b"data").unwrap();
    // The first client's process dies before it said that the file was closed.
    let held = Held { opens: vec![], locks: vec![] };
    let successor = Client::resume(&cluster.target, first.session(), held, Default::default()).unwrap();
    let then = Time { seconds: 1_000_000_000, nanos: 5 };
    successor.setattr(New, ino, &SetAttr { mtime: Some(then), ..SetAttr::default() }).unwrap();
    assert_eq!(successor.getattr(ino).unwrap().mtime, then);
    assert_eq!(successor.readdir(ROOT, 0).unwrap()[0].attr.mtime, then);
    successor.open(ino, true).unwrap();
    successor.close(ino, true).unwrap();
    assert_eq!(cluster.client().getattr(ino).unwrap().mtime, then);
    successor.open(ino, true).unwrap();
    // A write moves it on, once the clock of the file system below has ticked; if never, this never ends.
    while cluster.client().getattr(ino).unwrap().mtime == then {
        successor.write(ino, 0, b"more").unwrap();
    }
}
