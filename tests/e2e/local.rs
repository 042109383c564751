//! Private volumes on a node's own flash, with the node service alone: no control, no workload manager.

/// A volume needs mounts.
mod root_only {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use tests::cluster::program_folder;
    use tests::processes::{mounts_of, of_folder, wait_until};

    /// The user of the volumes; nobody has to have the number.
    const USER: u32 = 4711;

    /// A node service with its folders.
    struct Site {
        folder: tempfile::TempDir,
        node: Option<Child>,
    }

    impl Site {
        fn start() -> Site {
            let mut site = Site { folder: tempfile::tempdir_in("/var/tmp").unwrap(), node: None };
            let root = site.root().to_owned();
            // Users pass through it.
            rustix::fs::chmod(&root, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
            fs::create_dir_all(root.join("pfs")).unwrap();
            std::os::unix::fs::chown(root.join("pfs"), Some(USER), Some(USER)).unwrap();
            let config = format!(
                "name = \"n1\"\nroles = [\"compute\"]\nstate_dir = \"{r}/state\"\ncontrol = \"{r}/none.sock\"\n\
                 mount_root = \"{r}/mnt\"\nlocal_root = \"{r}/bb\"\nlocal_capacity = \"256MiB\"\n\
                 local_reserve = \"16MiB\"\n",
                r = root.display()
            );
            fs::write(root.join("node.toml"), config).unwrap();
            site.start_node();
            site
        }

        fn root(&self) -> &Path {
            self.folder.path()
        }

        fn start_node(&mut self) {
            let log = fs::File::options().append(true).create(true).open(self.root().join("log")).unwrap();
            let mut command = Command::new(program_folder().join("forebay-node"));
            command.arg("--config").arg(self.root().join("node.toml"));
            self.node = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
            let answers = || self.local(&["list"]).0;
            assert!(wait_until(Duration::from_secs(20), answers), "{}", self.log());
        }

        /// Everything of the node is gone and nothing is mounted, as after a power cut.
        fn reboot(&mut self) {
            let mut node = self.node.take().unwrap();
            node.kill().unwrap();
            node.wait().unwrap();
            self.end_drainers();
            self.unmount();
            self.start_node();
        }

        fn end_drainers(&self) {
            let drainers = || {
                let mut all = of_folder(self.root());
                all.retain(|process| process.program() == "forebay-drain");
                all
            };
            drainers().iter().for_each(|drainer| drainer.kill());
            assert!(wait_until(Duration::from_secs(10), || drainers().is_empty()));
        }

        fn unmount(&self) {
            for point in mounts_of(self.root()) {
                Command::new("umount").arg("--lazy").arg(point).status().unwrap();
            }
        }

        /// `forebay local WORDS...`: whether it succeeded, and what it said.
        fn local(&self, words: &[&str]) -> (bool, String) {
            let mut command = Command::new(program_folder().join("forebay"));
            command.arg("local").args(words).env("FOREBAY_NODE_SOCKET", self.root().join("state/node.sock"));
            let output = command.output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        }

        #[track_caller]
        fn create(&self, id: &str) -> PathBuf {
            let uid = USER.to_string();
            let (made, said) = self.local(&["create", id, "--user", "ada", "--uid", &uid]);
            assert!(made, "{said}\n{}", self.log());
            PathBuf::from(said.trim())
        }

        /// `forebay drain WORDS...`, as the user in the job.
        fn drain(&self, words: &[&str]) -> (bool, String) {
            let volume = self.root().join("bb/ada");
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).arg("--clear-groups");
            command.arg(program_folder().join("forebay")).arg("drain").args(words);
            command.env("FOREBAY_LOCAL", &volume).env("PERSIST_DIR", &volume);
            command.env("PFS_DIR", self.root().join("pfs")).env("SLURM_JOB_ID", "7");
            let output = command.output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        }

        fn log(&self) -> String {
            fs::read_to_string(self.root().join("log")).unwrap_or_default()
        }

        #[track_caller]
        fn wait_until_discarded(&self) {
            let is_gone = || self.local(&["list"]).1.is_empty();
            assert!(
                wait_until(Duration::from_secs(30), is_gone),
                "{}\n{}",
                self.local(&["list"]).1,
                self.log()
            );
            assert!(mounts_of(self.root()).is_empty() && !self.root().join("bb/ada").exists());
            assert_eq!(fs::read_dir(self.root().join("state/locals")).unwrap().count(), 0);
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            if let Some(mut node) = self.node.take() {
                let _ = node.kill();
                let _ = node.wait();
            }
            self.end_drainers();
            self.unmount();
        }
    }

    #[test]
    fn a_volume_is_its_users_alone_holds_what_it_should_and_leaves_the_reserve() {
        let site = Site::start();
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
        let mut site = Site::start();
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
        let site = Site::start();
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
