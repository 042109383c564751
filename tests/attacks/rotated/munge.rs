//! The key of MUNGE is changed on all hosts while a job works, as docs/run/security.md says how.

use std::fs;
use std::time::Duration;

use tests::hosts::plain;
use tests::processes::{Process, wait_until};

use super::JOB;
use tests::sharing::{ADA, Session, Site};

/// Control asks nodes each second.
const SOON: Duration = Duration::from_secs(30);

/// Starts the `munged` of a host again, with the key that is there by now.
fn restart(site: &Site, host: &str) {
    let folder = site.folder().join("munge");
    let folder = plain(&folder);
    let script = format!(
        "pid=$(cat /run/munge/munged.pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done
         exec setpriv --reuid=munge --regid=munge --init-groups munged --key-file={folder}/key \
             --seed-file={folder}/seed.{host} --log-file={folder}/log.{host} --pid-file=/run/munge/munged.pid"
    );
    site.on(host, &["bash", "-c", &script]).expect_success();
}

/// A new key under another name, which takes the place of the present one in one step.
fn replace(site: &Site) {
    let folder = site.folder().join("munge");
    let (new, key) = (folder.join("new"), folder.join("key"));
    let script = format!(
        "(umask 077; head -c 1024 /dev/urandom > {0}); chown munge:munge {0}; chmod 400 {0}; mv {0} {1}",
        new.display(),
        key.display()
    );
    site.on("head", &["bash", "-c", &script]).expect_success();
}

/// The services of all hosts.
fn services(site: &Site) -> Vec<Process> {
    ["n1", "n2", "n3", "n4"].iter().map(|host| site.node(host)).chain([site.control()]).collect()
}

/// A session that is to stage a small file in.
fn staging<'a>(site: &'a Site, buffer: &str) -> Session<'a> {
    let source = site.pfs(ADA).join("in");
    fs::write(&source, "staged").expect("ours");
    let source = source.display();
    let line =
        format!("#DW stage_in type=file source={source} destination=$DW_PERSISTENT_STRIPED_{buffer}/in");
    site.session(ADA, buffer, &line)
}

/// Changes the key on one host after the other. Where some have it and others do not nothing new is mounted, and who
/// stages waits or is told that it failed; when all have it both work.
fn rotate(site: &Site, staging: &Session<'_>, late: &mut Session<'_>) {
    replace(site);
    ["n1", "n2", "n3"].iter().for_each(|host| restart(site, host));
    assert!(wait_until(SOON, || site.online() == 1), "{} are believed", site.online());
    let refused = late.try_mount();
    assert!(!refused.status.success(), "{}", refused.stdout);
    std::thread::scope(|scope| {
        let staged = scope.spawn(|| staging.data_in());
        std::thread::sleep(Duration::from_secs(2));
        ["n4", "head"].iter().for_each(|host| restart(site, host));
        assert!(wait_until(SOON, || site.online() == 4), "{} are believed", site.online());
        if !staged.join().expect("it ends").status.success() {
            staging.data_in().expect_success();
        }
    });
    late.mount();
    late.run("test -s $B/in").expect_success();
}

/// The job works on meanwhile, and no service is restarted.
pub fn key(site: &Site) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    let (staging, mut late) = (staging(site, &buffer), site.session(ADA, &buffer, ""));
    let program = site.folder().join("keeps-open-on.py");
    fs::write(&program, JOB).expect("ours");
    let before = services(site);
    std::thread::scope(|scope| {
        let job = scope.spawn(|| ada.run(&format!("python3 {} $B", plain(&program))));
        assert!(wait_until(SOON, || ada.run("ls $B").stdout.contains("new-15")));
        rotate(site, &staging, &mut late);
        ada.run("rm $B/new-*; touch $B/stop").expect_success();
        let done = job.join().expect("it ends by itself");
        assert_eq!(done.stdout, "whole\n", "{}", done.stderr);
    });
    assert!(before.iter().all(Process::is_alive), "a service was restarted");
    [ada, staging, late].into_iter().for_each(Session::end);
    site.destroy(&buffer);
}
