//! A job of ada's on n3 and n4, from its stage-in to its stage-out, as a workload manager drives it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tests::hosts::{ADA, plain};
use tests::tree::bytes;

use crate::mixture::Mixture;

/// What is staged in. Both storage nodes copy: with 64 MiB there is enough to do (docs/STAGING.md).
const FILES: [(&str, usize); 3] = [("small", 5), ("large", 66 << 20), ("folder/odd", 70_001)];

/// The job.
pub struct Job<'a> {
    mixture: &'a Mixture,
    token: &'static str,
    pfs: PathBuf,
    script: PathBuf,
    names: PathBuf,
    mountpoint: PathBuf,
}

impl<'a> Job<'a> {
    /// Makes its buffer, stages its files in and mounts it.
    #[track_caller]
    pub fn begin(mixture: &'a Mixture, token: &'static str) -> Job<'a> {
        let job = Job::set_up(mixture, token);
        job.stage_in();
        job.mount();
        job
    }

    /// Its session's token.
    pub fn token(&self) -> &str {
        self.token
    }

    /// Makes its buffer.
    #[track_caller]
    pub fn set_up(mixture: &'a Mixture, token: &'static str) -> Job<'a> {
        let folder = mixture.hosts.folder();
        let pfs = folder.join("pfs/ada").join(token);
        let [script, names] = ["job", "on"].map(|of| folder.join(format!("{of}-{token}")));
        for (name, length) in FILES {
            let file = pfs.join("in").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, bytes(length as u64, length)).unwrap();
        }
        chown(&pfs, Some(ADA.id), Some(ADA.id)).unwrap();
        let directives = format!(
            "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=256MiB\n\
             #DW stage_in type=directory source={p}/in destination=$DW_JOB_STRIPED/in\n\
             #DW stage_out type=directory source=$DW_JOB_STRIPED/out destination={p}/out\n",
            p = pfs.display()
        );
        fs::write(&script, directives).unwrap();
        fs::write(&names, "n3\nn4\n").unwrap();
        let mountpoint = folder.join("mnt").join(token).join("striped");
        let job = Job { mixture, token, pfs, script, names, mountpoint };
        let id = ADA.id.to_string();
        job.call(
            "setup",
            &["--caller", "tests", "--user", &id, "--groupid", &id, "--capacity", "wlm_pool:256MiB"],
        );
        job
    }

    /// Stages its files in.
    #[track_caller]
    pub fn stage_in(&self) {
        self.call("data_in", &[]);
    }

    /// Mounts the buffer on n3 and n4.
    #[track_caller]
    pub fn mount(&self) {
        self.call("pre_run", &["--nodehostnamefile", plain(&self.names)]);
    }

    #[track_caller]
    fn call(&self, function: &str, more: &[&str]) {
        let job = ["--job", plain(&self.script)];
        self.mixture.hosts.manage(function, self.token, &[&job[..], more].concat());
    }

    /// A file of the buffer as a node has it, for this process.
    pub fn at(&self, node: &str, name: &str) -> PathBuf {
        self.mixture.hosts.seen_from(node, &self.mountpoint).join(name)
    }

    /// What its user runs on a node, beginning in the buffer.
    #[track_caller]
    pub fn run(&self, node: &str, command: &str) {
        let command =
            format!("set -e; cd {}; P={}; {command}", self.mountpoint.display(), self.pfs.display());
        let outcome = self.mixture.hosts.on(&format!("{node}/{}", ADA.name), &["bash", "-c", &command]);
        assert!(outcome.status.success(), "{node}: {command}\n{}{}", outcome.stdout, outcome.stderr);
    }

    /// Reads what was staged in, and writes what is to be staged out: each node reads what the other wrote.
    #[track_caller]
    pub fn work(&self) {
        self.run("n3", "diff -r in $P/in; mkdir -p out; cp -r in out/n3");
        self.run("n4", "diff -r out/n3 $P/in; cp -r out/n3 out/n4; mv out/n4/small out/n4/moved");
        self.run("n3", "cmp out/n4/moved $P/in/small; cmp out/n4/large in/large; echo more >>out/n4/moved");
    }

    /// Unmounts, stages out, compares, and gives the buffer back. Where the results are.
    #[track_caller]
    pub fn end(self) -> PathBuf {
        self.call("post_run", &[]);
        self.call("data_out", &[]);
        for (name, length) in FILES {
            let content = bytes(length as u64, length);
            self.assert_out(&Path::new("n3").join(name), &content);
            match name {
                "small" => self.assert_out(Path::new("n4/moved"), &[&content[..], b"more\n"].concat()),
                _ => self.assert_out(&Path::new("n4").join(name), &content),
            }
        }
        self.call("teardown", &[]);
        self.pfs.join("out")
    }

    #[track_caller]
    fn assert_out(&self, name: &Path, content: &[u8]) {
        let found = fs::read(self.pfs.join("out").join(name)).unwrap_or_default();
        assert!(found == content, "{} differs: {} bytes", name.display(), found.len());
    }
}
