//! Private volumes on a node's own flash, with the node service alone: no control, no workload manager.

/// A volume needs mounts.
mod root_only {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    use tests::local_node::{LocalNode, USER};
    use tests::processes::wait_until;

    #[test]
    fn a_volume_is_its_users_alone_holds_what_it_should_and_leaves_the_reserve() {
        let site = LocalNode::start("/var/tmp", "256MiB");
        let volume = site.create("7");
        assert_eq!(volume, site.root().join("bb/ada"));
        let found = fs::metadata(&volume).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (USER, 0o700));
        assert_eq!(fs::read_dir(&volume).unwrap().count(), 0);
        let room = rustix::fs::statvfs(&volume).unwrap();
        assert!(room.f_bavail * room.f_frsize >= 256 << 20, "{} blocks", room.f_bavail);
        // The same user's second job on the node has no place for its volume.
        let second = ["create", "8", "--user", "ada", "--uid", "4711"];
        assert!(site.local(&second).1.contains("is the volume of job 7"));
        let greedy = ["create", "9", "--user", "bob", "--uid", "4712", "--capacity", "900TiB"];
        let (made, said) = site.local(&greedy);
        assert!(!made && said.contains("16777216 are never handed out"), "{said}");
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
    }

    #[test]
    fn a_reboot_in_mid_drain_loses_nothing_and_the_volume_goes_when_all_is_drained() {
        let mut site = LocalNode::start("/var/tmp", "256MiB");
        let volume = site.create("7");
        let (started, said) = site.drain(&["start"]);
        assert!(started, "{said}\n{}", site.log());
        assert!(site.drain(&["pause"]).0);
        for number in 0..20 {
            let file = volume.join(format!("f{number}"));
            fs::write(&file, tests::tree::bytes(number, 100_000)).unwrap();
            std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
        }
        rustix::fs::syncfs(fs::File::open(&volume).unwrap()).unwrap();
        // Something on the PFS is in the way of one file.
        fs::create_dir(site.root().join("pfs/f3")).unwrap();
        site.reboot();
        let is_back = || fs::read_dir(&volume).is_ok_and(|files| files.count() == 21);
        assert!(
            wait_until(Duration::from_secs(10), is_back),
            "the volume is not found again\n{}",
            site.log()
        );
        assert!(site.local(&["release", "7"]).0);
        let is_kept = || site.local(&["list"]).1.contains("kept after its job: 1 files are not drained: ");
        assert!(wait_until(Duration::from_secs(30), is_kept), "{}\n{}", site.local(&["list"]).1, site.log());
        assert!(!volume.exists(), "its user's job is over");

        site.reboot();
        fs::remove_dir(site.root().join("pfs/f3")).unwrap();
        site.wait_until_discarded();
        for number in 0..20 {
            let file = site.root().join(format!("pfs/f{number}"));
            assert!(fs::read(&file).unwrap() == tests::tree::bytes(number, 100_000), "{}", file.display());
            assert_eq!(fs::metadata(&file).unwrap().uid(), USER);
        }
    }

    #[test]
    fn a_volume_of_a_hundred_thousand_files_is_discarded_in_one_step() {
        let site = LocalNode::start("/var/tmp", "256MiB");
        let volume = site.create("7");
        for folder in 0..100 {
            let folder = volume.join(format!("d{folder}"));
            fs::create_dir(&folder).unwrap();
            (0..1000).for_each(|file| drop(fs::File::create(folder.join(format!("f{file}"))).unwrap()));
        }
        let before = Instant::now();
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
        eprintln!("100,000 files were discarded in {:?}", before.elapsed());
    }
}
