//! A Python process on a node, for what this process cannot do from outside: locks of another process, mappings,
//! signals.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use tests::hosts::plain;

use crate::site::Site;

/// The process's program.
const PROGRAM: &str = include_str!("peer.py");

/// A process on a node. It ends when it is dropped.
pub struct Peer {
    node: usize,
    /// Its process id on the node. The child of ours only waits for it.
    id: String,
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it; `path` is the file it works with.
    pub fn start(site: &Site, node: usize, path: &Path) -> Peer {
        let mut command = site.command(node, &["/usr/bin/python3", "-uc", PROGRAM, plain(path)]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash is there");
        let asks = process.stdin.take().expect("it is piped");
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut peer = Peer { node, id: String::new(), process, asks, answers };
        peer.id = peer.answer();
        peer
    }

    /// Does one line of Python and waits for what it gave.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Does one line of Python; the answer is taken later.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.asks, "{line}").expect("the process runs");
    }

    /// The next answer.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the process runs");
        line.trim_end().to_owned()
    }

    /// Ends it as a crash does, whatever it does now.
    pub fn crash(mut self, site: &Site) {
        site.run(self.node, &["kill", "-KILL", &self.id]);
        self.process.wait().expect("it is our child");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its end of the pipe is closed next: it ends when it has nothing else to do.
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}
