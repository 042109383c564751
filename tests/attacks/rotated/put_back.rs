//! A node's folder is restored from a copy made before the key was changed, and somebody has the key that is in it.

use std::time::{Duration, Instant};

use tests::hosts::plain;
use tests::processes::wait_until;

use super::between::insist;
use super::{Part, part, thief};
use tests::sharing::{ADA, Session, Site};

/// A node without control's word waits some seconds, and asks the others.
const SOON: Duration = Duration::from_secs(60);

/// For longer than a node waits for control at its start, and asks the others.
const UNSEEN: Duration = Duration::from_secs(12);

/// A buffer whose key was changed since a copy of n2's folder was made; n2's part then.
struct Changed<'a> {
    site: &'a Site,
    session: Session<'a>,
    buffer: String,
    former: Part,
}

impl Changed<'_> {
    fn new(site: &Site) -> Changed<'_> {
        let buffer = site.shared_buffer();
        let mut session = site.session(ADA, &buffer, "");
        session.mount();
        let files = "for n in 1 2 3 4; do head -c 300000 /dev/zero > $B/of-$n; done; sync $B/*";
        session.run(files).expect_success();
        let changed = Changed { site, session, buffer, former: part(site, "n2") };
        {
            let _still = site.node("n2").stop();
            changed.shell("rm -rf $C; cp -a $F $C");
        }
        insist(site, &changed.buffer);
        changed
    }

    /// Runs a shell command with the folder as `$F` and the copy's as `$C`.
    fn shell(&self, command: &str) {
        let folder = self.site.state_of("n2").join("fragments").join(&self.former.instance);
        let copy = self.site.folder().join("copy-of-n2");
        let command = format!("set -e; F={} C={}; {command}", plain(&folder), plain(&copy));
        self.site.on("n2", &["bash", "-c", &command]).expect_success();
    }

    /// The copy takes the folder's place, and the node is started again a moment later.
    fn put_back(&self) {
        let node = self.site.node("n2");
        let _still = node.stop();
        self.shell("rm -rf $F; mv $C $F");
        node.kill();
    }

    /// What somebody with the former key is told, who is never let in.
    fn refused(&self) -> String {
        let said = ["node", "mount"].map(|kind| thief(self.site, &self.former, kind, 0).stdout);
        assert!(!said.contains(&"in\n".to_owned()), "the former key is taken: {said:?}");
        said[0].clone()
    }

    /// The node has the present key, and the job what it had.
    fn end(self) {
        assert!(wait_until(SOON, || self.refused() == "refused 3\n"), "the node does not serve");
        let read = self.session.run("timeout 60 cat $B/of-* | wc -c");
        assert_eq!(read.stdout, "1200000\n", "{}", read.stderr);
        self.session.end();
        self.site.destroy(&self.buffer);
    }
}

/// Control runs: the node hears at its start that its key is a former one, and is brought the present one.
pub fn seen(site: &Site) {
    let changed = Changed::new(site);
    changed.put_back();
    changed.end();
}

/// Control does not answer: the other node of the buffer refuses the key, and the part is served when control does.
pub fn unseen(site: &Site) {
    let changed = Changed::new(site);
    {
        let _silent = site.control().stop();
        changed.put_back();
        let begun = Instant::now();
        while begun.elapsed() < UNSEEN {
            changed.refused();
        }
    }
    changed.end();
}
