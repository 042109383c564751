//! Private volumes on a node's own flash, with the node service alone: no control, no workload manager.

/// A volume needs mounts.
mod root_only {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use tests::cluster::program_folder;
    use tests::local_node::{LocalNode, USER};
    use tests::processes::{of_folder, wait_until, wait_until_told};

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
    fn a_node_that_cannot_make_the_volumes_it_is_told_to_make_says_what_is_missing() {
        let config = "local_kind = \"logical-volume\"\nlocal_volume_group = \"no-such-flash\"\n";
        let said = LocalNode::refusal("/var/tmp", config);
        // What this machine's kernel lacks, or, where it has a device mapper, the group.
        assert!(said.contains("`local_kind` in the node's configuration"), "{said}");
        assert!(said.contains("device-mapper") || said.contains("\"no-such-flash\" not found"), "{said}");

        let folder = tempfile::tempdir().unwrap();
        let config =
            format!("local_kind = \"project-quota\"\nlocal_folder = \"{}\"\n", folder.path().display());
        let said = LocalNode::refusal("/var/tmp", &config);
        assert!(said.contains("it must be on XFS mounted with -o prjquota"), "{said}");
        let said = LocalNode::refusal("/var/tmp", "local_kind = \"project-quota\"\n");
        assert!(said.contains("local_folder"), "{said}");
    }

    #[test]
    fn a_volume_that_is_kept_after_its_job_leaves_the_path_to_the_users_next_job() {
        let site = LocalNode::start("/var/tmp", "64MiB");
        let volume = site.create("7");
        assert!(site.drain(&["start"]).0 && site.drain(&["pause"]).0);
        fs::write(volume.join("undrained"), "x").unwrap();
        std::os::unix::fs::chown(volume.join("undrained"), Some(USER), Some(USER)).unwrap();
        // In the way on the PFS.
        fs::create_dir(site.root().join("pfs/undrained")).unwrap();
        assert!(site.local(&["release", "7"]).0);

        // The first one's drainer may not even have ended by now.
        assert_eq!(site.create("8"), volume);
        fs::write(volume.join("result"), "of the next job").unwrap();
        assert!(site.root().join("mnt/local-n1-8/result").exists(), "it is in the volume of the first job");
        let open = fs::File::open(&volume).unwrap();
        let mount = |file: &fs::File| {
            let flags = rustix::fs::StatxFlags::MNT_ID;
            rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, flags).unwrap().stx_mnt_id
        };
        let is_kept = || site.local(&["list"]).1.contains("files are not drained");
        assert!(wait_until_told(Duration::from_secs(20), is_kept), "{}", site.local(&["list"]).1);
        fs::remove_dir(site.root().join("pfs/undrained")).unwrap();
        let is_gone = || !site.root().join("state/locals/7").exists();
        assert!(wait_until(Duration::from_secs(20), is_gone), "{}", site.log());
        // The path never led elsewhere, not even for a moment.
        assert_eq!(mount(&fs::File::open(&volume).unwrap()), mount(&open));
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
    fn what_was_asked_for_is_drained_also_where_a_job_has_cleared_its_volume() {
        let site = LocalNode::start("/var/tmp", "64MiB");
        let volume = site.create("7");
        // Its drainer cannot be reached any more: it must not go on beside the next one either.
        assert!(site.drain(&["start"]).0 && site.drain(&["pause"]).0);
        let cleared = Command::new("find").arg(&volume).args(["-mindepth", "1", "-delete"]).status();
        assert!(cleared.unwrap().success());
        fs::write(volume.join("result"), "of the job").unwrap();
        std::os::unix::fs::chown(volume.join("result"), Some(USER), Some(USER)).unwrap();
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
        assert_eq!(fs::read_to_string(site.root().join("pfs/result")).unwrap(), "of the job");
    }

    #[test]
    fn what_is_drained_without_the_jobs_environment_is_owed_when_the_job_is_over() {
        let site = LocalNode::start("/var/tmp", "64MiB");
        let (volume, pfs) = (site.create("7"), site.root().join("pfs"));
        fs::create_dir(pfs.join("result")).unwrap();
        assert!(site.drain_command(&["start"]).env_remove("FOREBAY_LOCAL").status().unwrap().success());
        fs::write(volume.join("result"), "of the job").unwrap();
        std::os::unix::fs::chown(volume.join("result"), Some(USER), Some(USER)).unwrap();
        assert!(site.local(&["release", "7"]).0);
        // A folder is in its way: it must not go with the volume.
        fs::remove_dir(pfs.join("result")).unwrap();
        site.wait_until_discarded();
        assert_eq!(fs::read_to_string(pfs.join("result")).unwrap(), "of the job");
    }

    #[test]
    fn a_volume_that_its_user_has_filled_is_drained_all_the_same_also_after_a_reboot() {
        let mut site = LocalNode::start("/var/tmp", "64MiB");
        let volume = site.create("7");
        assert!(site.drain(&["start"]).0 && site.drain(&["pause"]).0);
        let made = fill(&volume);
        let all =
            |folder: &Path| made.iter().all(|(name, bytes)| fs::read(folder.join(name)).unwrap() == *bytes);
        assert!(all(&volume));
        site.reboot();
        let runs = || site.drain(&["pause"]).0;
        assert!(wait_until(Duration::from_secs(20), runs), "it is not started again\n{}", site.log());
        let (stopped, said) = site.drain(&["stop"]);
        assert!(stopped, "{said}");
        assert!(site.drain(&["start"]).0);
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
        assert!(all(&site.root().join("pfs")), "what is on the PFS differs");
    }

    /// Makes files as long as there is a byte of room; their names and what is in them.
    fn fill(volume: &Path) -> Vec<(String, Vec<u8>)> {
        let mut made = Vec::new();
        for length in [16 << 20, 1 << 20, 65536, 4096, 1] {
            loop {
                let name = format!("f{}", made.len());
                let Ok(mut file) = fs::File::create(volume.join(&name)) else { break };
                std::os::unix::fs::fchown(&file, Some(USER), Some(USER)).unwrap();
                let mut bytes = tests::tree::bytes(made.len() as u64, length);
                let whole = file.write_all(&bytes).and_then(|()| file.sync_all()).is_ok();
                bytes.truncate(file.metadata().unwrap().len() as usize);
                made.push((name, bytes));
                if !whole {
                    break;
                }
            }
        }
        made
    }

    #[test]
    fn a_drain_that_its_user_has_stopped_rests_until_it_is_started_again_or_the_job_ends() {
        let site = LocalNode::start("/var/tmp", "64MiB");
        let (volume, pfs) = (site.create("7"), site.root().join("pfs"));
        let out = volume.join("out");
        fs::create_dir(&out).unwrap();
        std::os::unix::fs::chown(&out, Some(USER), Some(USER)).unwrap();
        let drain = |word: &str| site.drain(&[word, "--from", out.to_str().unwrap()]);
        let is_there = |name: &str| wait_until(Duration::from_secs(20), || pfs.join(name).exists());
        let (started, said) = drain("start");
        assert!(started, "{said}\n{}", site.log());
        assert_polite(site.root());
        fs::write(out.join("a"), "while it runs").unwrap();
        assert!(is_there("a"));
        let (stopped, said) = drain("stop");
        assert!(stopped, "{said}");
        fs::write(out.join("b"), "while it rests").unwrap();
        // The node looks after the volume three times a second.
        std::thread::sleep(Duration::from_millis(1500));
        let (paused, said) = drain("pause");
        assert!(!paused && said.contains("nothing drains"), "{said}");
        assert!(!pfs.join("b").exists());

        assert!(drain("start").0);
        assert!(is_there("b"));
        assert!(drain("stop").0);
        fs::write(out.join("c"), "owed at the end").unwrap();
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
        assert_eq!(fs::read_to_string(pfs.join("c")).unwrap(), "owed at the end");
    }

    #[test]
    fn a_drain_that_will_not_be_ready_in_time_drops_its_limit_and_its_low_rank() {
        let site = LocalNode::start("/var/tmp", "64MiB");
        let volume = site.create("7");
        let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 60;
        let (started, said) = site.drain(&["start", "--limit", "256KiB", "--deadline", &soon.to_string()]);
        assert!(started, "{said}\n{}", site.log());
        assert_polite(site.root());
        fs::write(volume.join("large"), vec![7; 40 << 20]).unwrap();
        let pid = of_folder(site.root()).into_iter().find(|p| p.program() == "forebay-drain").unwrap().pid;
        let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        // Niceness is the 19th field (proc_pid_stat(5)), the 17th after the name.
        let nice = || of("stat").rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned();
        assert_eq!(nice(), "19");
        // With its limit it would take five minutes.
        let landed = || site.root().join("pfs/large").exists();
        assert!(wait_until(Duration::from_secs(50), landed), "{}", site.drain(&["status"]).1);
        let has_rank = || nice() == "0" && !of("cgroup").contains("forebay-drain");
        assert!(wait_until(Duration::from_secs(5), has_rank), "nice {}, {}", nice(), of("cgroup"));
        assert!(site.local(&["release", "7"]).0);
        site.wait_until_discarded();
    }

    #[test]
    fn new_files_wait_while_the_job_writes_to_its_volume_and_arrive_when_it_has_done() {
        let site = LocalNode::start("/var/tmp", "256MiB");
        let volume = site.create("7");
        assert!(site.drain(&["start"]).0, "{}", site.log());
        // A burst: again and again the same blocks, past the page cache.
        let block = format!("of={}/burst", volume.display());
        let burst =
            format!("while :; do dd if=/dev/zero {block} bs=4M count=8 oflag=direct conv=notrunc; done");
        let mut job = Command::new("sh").args(["-c", &burst]).stderr(Stdio::null()).spawn().unwrap();
        let says = || site.drain(&["status"]).1.contains("waits while the job writes");
        let seen = wait_until_told(Duration::from_secs(30), says);
        fs::write(volume.join("closed"), "in mid-burst").unwrap();
        job.kill().unwrap();
        job.wait().unwrap();
        assert!(seen, "{}", site.drain(&["status"]).1);
        let pfs = site.root().join("pfs/closed");
        assert!(wait_until(Duration::from_secs(20), || pfs.exists()), "{}", site.drain(&["status"]).1);
        let (whole, said) = site.drain(&["wait"]);
        assert!(whole, "{said}");
    }

    /// The drainer is in a cgroup of little weight, wherever this machine's kernel has weights.
    fn assert_polite(root: &Path) {
        let drainer =
            of_folder(root).into_iter().find(|process| process.program() == "forebay-drain").unwrap();
        let groups = || fs::read_to_string(format!("/proc/{}/cgroup", drainer.pid)).unwrap();
        let weight = |file: &str| fs::read_to_string(Path::new("/sys/fs/cgroup").join(file)).ok();
        for (file, least) in [("forebay-drain/cpu.weight", "1\n"), ("cpu/forebay-drain/cpu.shares", "10\n")] {
            let Some(found) = weight(file) else { continue };
            assert_eq!(found, least, "{file}");
            // The kernel takes its time to move a process, which may answer before.
            let is_moved = || groups().contains(":/forebay-drain\n");
            return assert!(wait_until(Duration::from_secs(5), is_moved), "{}", groups());
        }
        assert!(site_has_no_weights(), "there are weights, but no cgroup of the drainers'");
    }

    /// A container may have no cgroups that can be written to.
    fn site_has_no_weights() -> bool {
        let is_there = |file: &str| Path::new("/sys/fs/cgroup").join(file).exists();
        !is_there("cpu/cpu.shares") && !is_there("cgroup.subtree_control")
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

    /// LSF's hooks, called as its pages say: `esub` at submission, `pre_exec` and `post_exec` as root on the host, and
    /// what `jsrun` finds before the site's own after `module load spectral`.
    #[test]
    fn lsfs_hooks_give_a_job_its_volume_drain_it_and_take_it_back() {
        let site = LocalNode::start("/var/tmp", "64MiB");
        let lsf = Lsf::install(site.root());
        let (options, variables) = (site.root().join("options"), site.root().join("variables"));
        fs::write(&options, "LSB_SUB_QUEUE=\"batch\"\nLSB_SUB_PROJECT_NAME=\"abc\"\n").unwrap();
        fs::write(&variables, "").unwrap();
        let files = [("LSB_SUB_PARM_FILE", &*options), ("LSB_SUB_MODIFY_ENVFILE", &*variables)];
        let submit = |flags: &[&str]| {
            let esub = lsf.command("esub.forebay").args(flags).envs(files).status().unwrap();
            assert!(esub.success());
            fs::read_to_string(&variables).unwrap()
        };
        assert_eq!(submit(&["gpumps"]), "");
        let said = submit(&["gpumps", "Spectral"]);
        let volume = site.root().join("bb/root");
        assert!(said.contains(&format!("BBPATH=\"{}\"\n", volume.display())), "{said}");
        let job: Vec<(String, String)> = said
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
            .chain(
                [("LSFUSER", "root"), ("LSB_JOBID", "31"), ("LSB_JOBINDEX", "2")]
                    .map(|(a, b)| (a.into(), b.into())),
            )
            .collect();
        let unmarked =
            lsf.command("pre_exec").env("LSFUSER", "root").env("LSB_JOBID", "30").status().unwrap();
        assert!(unmarked.success() && !volume.exists(), "a job that asks for none has none");
        assert!(lsf.command("pre_exec").envs(job.clone()).status().unwrap().success(), "{}", site.log());
        assert!(site.local(&["list"]).1.contains("31_2: "), "{}", site.local(&["list"]).1);

        let folders = [("PERSIST_DIR", volume.clone()), ("PFS_DIR", site.root().join("pfs"))];
        let write = ["sh", "-c", "echo result >$PERSIST_DIR/result"];
        let ran = lsf
            .command("spectral/jsrun")
            .args(write)
            .envs(job.clone())
            .envs(folders.clone())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}\n{}", String::from_utf8_lossy(&ran.stderr), site.log());
        let waited =
            lsf.command("forebay").args(["drain", "wait"]).envs(job.clone()).envs(folders).output().unwrap();
        let waited = String::from_utf8_lossy(&waited.stdout).into_owned();
        assert!(waited.ends_with("Done:1\nAll files moved\n"), "{waited}");
        assert_eq!(fs::read_to_string(site.root().join("pfs/result")).unwrap(), "result\n");
        assert!(lsf.command("post_exec").envs(job).status().unwrap().success());
        site.wait_until_discarded();

        // With CSM the flags come as arguments.
        let csm = [("CSM_USER_NAME", "root"), ("CSM_PRIMARY_JOB_ID", "32")];
        let arguments = ["--type", "allocation", "--user_flags", "gpumps NVME", "--sys_flags", ""];
        assert!(lsf.command("pre_exec").args(arguments).envs(csm).status().unwrap().success());
        assert!(volume.exists());
        assert!(lsf.command("post_exec").args(arguments).envs(csm).status().unwrap().success());
        site.wait_until_discarded();
    }

    /// The hooks with the paths of a test, and LSF's `blaunch` and a site's `jsrun` that do what theirs do on one host.
    struct Lsf {
        folder: PathBuf,
        root: PathBuf,
    }

    impl Lsf {
        fn install(root: &Path) -> Lsf {
            let lsf = Lsf { folder: root.join("lsf"), root: root.to_owned() };
            fs::create_dir_all(lsf.folder.join("spectral")).unwrap();
            fs::create_dir_all(lsf.folder.join("site")).unwrap();
            let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/lsf");
            let forebay = program_folder().join("forebay").display().to_string();
            for name in ["esub.forebay", "pre_exec", "post_exec", "spectral/jsrun"] {
                let text = fs::read_to_string(packaged.join(name)).unwrap();
                let text = text.replace("/var/lib/forebay/node", &format!("{}/state", root.display()));
                lsf.program(name, &text.replace("/usr/bin/forebay", &forebay));
            }
            lsf.program("forebay", &format!("#!/bin/sh\nexec {forebay} \"$@\"\n"));
            lsf.program("site/jsrun", "#!/bin/sh\nexec \"$@\"\n");
            let blaunch = "#!/bin/sh\n[ \"$1\" = -z ] || exit 2\nhosts=$2; shift 2\n\
                for host in $hosts; do [ \"$host\" = here ] || exit 3; \"$@\" || exit; done\n";
            lsf.program("site/blaunch", blaunch);
            fs::write(root.join("hosts"), "launch\nhere\nhere\n").unwrap();
            lsf.program("site/hostname", "#!/bin/sh\necho launch\n");
            lsf
        }

        fn program(&self, name: &str, text: &str) {
            let path = self.folder.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn command(&self, name: &str) -> Command {
            let mut command = Command::new(self.folder.join(name));
            let (spectral, site) = (self.folder.join("spectral"), self.folder.join("site"));
            let path = format!("{}:{}:/usr/bin:/bin", spectral.display(), site.display());
            command.env_clear().env("PATH", path);
            command.env("FOREBAY_LOCAL_ROOT", self.root.join("bb"));
            command.env("FOREBAY_NODE_SOCKET", "/none"); // A job's, which no hook believes.
            command.env("LSB_DJOB_HOSTFILE", self.root.join("hosts"));
            command
        }
    }
}
