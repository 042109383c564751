//! Objects of files that storage nodes on the client's own machine hand out, to be written without them.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use client::{
    Client, Contents, Errno, Names, ROOT,
    RequestId::{Given, New},
};
use model::FragmentIndex;
use wire::control::VolumeKind;

use crate::support::{Cluster, ME, pattern};

#[test]
fn what_is_written_to_the_objects_of_a_striped_file_is_the_files() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can mount the volumes that hand out objects");
    }
    const STRIPE: usize = 65536;
    let cluster = Cluster::start_on(VolumeKind::Image, 2, 384 << 20);
    let client = cluster.client();
    let ino = client.create(New, ROOT, b"striped", 0o600, &ME).unwrap().ino;
    let contents = pattern(4 * STRIPE, 7);
    assert_eq!(client.place(ino, 0, 2 * STRIPE as u64), None, "two stripes are in two objects");
    for (offset, stripe) in (0..).step_by(STRIPE).zip(contents.chunks(STRIPE)) {
        let (fragment, place) = client.place(ino, offset, STRIPE as u64).unwrap();
        match client.object_on(ino, fragment) {
            Ok(object) => {
                let object = File::from(object);
                object.write_all_at(stripe, place).unwrap();
                client.wrote(ino, offset + STRIPE as u64, client.getattr(ino).unwrap().mtime);
            }
            Err(error) => {
                assert_eq!((error, place), (Errno::NOENT, 0), "an object is made by its first write");
                client.write(ino, offset, stripe).unwrap();
            }
        }
    }
    client.close(ino, true).unwrap();
    let mut back = vec![0; 5 * STRIPE];
    assert_eq!(cluster.client().read(ino, 0, &mut back).unwrap(), contents.len());
    assert!(back.starts_with(&contents));

    let mut remote = cluster.target.clone();
    remote.nodes.iter_mut().for_each(|node| node.unix = None);
    let remote = Client::connect(&remote).unwrap();
    assert_eq!(remote.object_on(ino, FragmentIndex(0)).map(drop), Err(Errno::NOTSUP));
}

#[test]
fn a_file_that_is_made_comes_with_its_object_where_the_kernel_keeps_the_capacity() {
    let volumes = if rustix::process::geteuid().is_root() {
        &[VolumeKind::Directory, VolumeKind::Image][..]
    } else {
        eprintln!("skipped for volumes that are images: only root can mount them");
        &[VolumeKind::Directory]
    };
    for volume in volumes {
        let cluster = Cluster::start_on(*volume, 1, 384 << 20);
        let client = cluster.client();
        for (id, name) in [(2, b"one"), (4, b"two")] {
            let (made, object) = client.create_with_object(Given(id), ROOT, name, 0o644, &ME).unwrap();
            assert_eq!(object.is_some(), *volume == VolumeKind::Image);
            match object {
                Some(object) => File::from(object).write_all(name).unwrap(),
                None => client.write(made.ino, 0, name).unwrap(),
            }
            client.close(made.ino, true).unwrap();
            let mut back = [0; 8];
            assert_eq!(cluster.client().read(made.ino, 0, &mut back).unwrap(), name.len());
            assert_eq!(&back[..name.len()], name);
        }
        let mut remote = cluster.target.clone();
        remote.nodes[0].unix = None;
        let remote = Client::connect(&remote).unwrap();
        let (made, object) = remote.create_with_object(Given(2), ROOT, b"three", 0o644, &ME).unwrap();
        assert!(object.is_none(), "over TCP there are no descriptors");
        assert_eq!(remote.object(made.ino).map(drop), Err(Errno::NOTSUP));
        remote.write(made.ino, 0, b"three").unwrap();
        let refused = client.create_with_object(Given(6), ROOT, b"one", 0o644, &ME);
        assert_eq!(refused.map(drop), Err(Errno::EXIST));
    }
}
