//! A drainer that stood still for longer than it may be silent, while somebody tried to start it again.

use std::fs;
use std::time::{Duration, Instant};

use drain::rendezvous::Rendezvous;
use drain::settings::{Bursts, Removed, SameName, Settings};
use rustix::process::{Pid, Signal, kill_process};

use super::node::{LIMIT, Node};
use super::read;

#[test]
fn a_stop_of_which_its_user_was_told_that_it_failed_does_not_come_later() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    assert_eq!(node.settle().failed, []);
    let pid = Pid::from_child(node.running.as_ref().unwrap());
    kill_process(pid, Signal::STOP).unwrap();
    drain::order(&node.state(), drain::Order::Stop).unwrap_err();
    kill_process(pid, Signal::CONT).unwrap();
    // After the stop in its queue.
    assert!(drain::order(&node.state(), drain::Order::Status).unwrap().is_some(), "it has ended");
    fs::write(node.from.join("f"), "later").unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("f")), "later");
    assert!(!node.state().join("stopped").exists(), "it would not be started again");
}

/// As `forebay drain start` where the drainer does not answer.
fn say_refused(node: &Node) {
    let settings = Settings {
        from: node.from.clone(),
        to: node.to.clone(),
        session: Some("s".to_owned()),
        host: Some(node.name.to_owned()),
        same_name: SameName::Suffix,
        limit: None,
        cores: None,
        removed: Some(Removed::Keep),
        workers: 1,
        bursts: Bursts::Ignore,
        deadline: None,
        slurm_job: None,
        state: None,
    };
    drain::unstarted::refuse(&settings, &node.state(), "the drainer does not answer");
}

fn are_refused(node: &Node) -> bool {
    let statuses = Rendezvous::new(node.to.join(".forebay-drain/s")).statuses().unwrap();
    statuses.iter().any(|status| status.refused)
}

#[test]
fn that_a_start_was_refused_is_no_news_when_the_drainer_goes_on_or_has_ended() {
    for stops in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        node.start();
        assert_eq!(node.settle().failed, []);
        let pid = Pid::from_child(node.running.as_ref().unwrap());
        kill_process(pid, Signal::STOP).unwrap();
        let status = node.to.join(".forebay-drain/s/n1.status");
        let mut said: serde_json::Value = serde_json::from_str(&read(&status)).unwrap();
        said["updated_ms"] = (drain::status::now_ms() - 61_000).into();
        fs::write(&status, said.to_string()).unwrap();
        say_refused(&node);
        assert!(are_refused(&node), "it counts as one that could not start");
        kill_process(pid, Signal::CONT).unwrap();
        if stops {
            node.stop();
        }
        let begun = Instant::now();
        while are_refused(&node) {
            assert!(begun.elapsed() < LIMIT, "it is still called one that could not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
