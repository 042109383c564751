//! What those read who meet.

use super::draft::temporary;
use super::*;
use crate::logs::{Event, Logs};

fn rendezvous() -> (tempfile::TempDir, Rendezvous) {
    let folder = tempfile::tempdir().unwrap();
    let rendezvous = Rendezvous::new(folder.path().to_owned());
    rendezvous.make(folder.path()).unwrap();
    (folder, rendezvous)
}

#[test]
fn a_receipt_is_complete_only_where_each_node_says_that_it_owes_nothing() {
    let (_folder, rendezvous) = rendezvous();
    for (failed, is_complete) in [(0, "true"), (1, "false")] {
        // Its log has no line of what failed: the disk that it is on was full.
        rendezvous.publish(&Status { host: "n1".into(), failed, ..Status::default() }).unwrap();
        let receipt = std::fs::read_to_string(rendezvous.write_receipt(&[]).unwrap().path).unwrap();
        assert!(receipt.contains(&format!("\"complete\":{is_complete}")), "{receipt}");
    }
}

#[test]
fn a_status_or_an_answer_that_cannot_be_understood_is_never_a_node_less() {
    for damaged in ["", "{\"host\":\"n1\""] {
        let (folder, rendezvous) = rendezvous();
        std::fs::write(folder.path().join("n1.status"), damaged).unwrap();
        let error = rendezvous.statuses().unwrap_err().to_string();
        assert!(error.contains("n1.status"), "{error}");
        let id = rendezvous.request().unwrap();
        std::fs::write(folder.path().join("answers").join(&id).join("n1"), damaged).unwrap();
        let error = rendezvous.answers(&id).unwrap_err().to_string();
        assert!(error.contains("answers"), "{error}");
    }
}

#[test]
fn every_host_has_an_answer_of_its_own_whatever_it_is_called() {
    let (_folder, rendezvous) = rendezvous();
    let id = rendezvous.request().unwrap();
    let hosts = ["n.tmp", "r1.n1", "r1.n2"];
    for host in hosts {
        let (failed, open) = (Vec::new(), Vec::new());
        rendezvous.answer(&id, &Answer { host: host.to_owned(), landed: 1, failed, open }).unwrap();
    }
    let answered: Vec<String> =
        rendezvous.answers(&id).unwrap().into_iter().map(|answer| answer.host).collect();
    assert_eq!(answered, hosts);
    let drafts: std::collections::BTreeSet<_> = hosts.iter().map(|host| temporary(Path::new(host))).collect();
    assert_eq!(drafts.len(), hosts.len(), "two hosts write one file");
}

#[test]
fn a_line_that_was_cut_off_takes_no_other_line_with_it() {
    let (folder, rendezvous) = rendezvous();
    let log = folder.path().join("n1.jsonl");
    let event = |path| Event {
        event: "failed",
        path: Path::new(path),
        target: Path::new("/pfs"),
        size: 1,
        crc32c: None,
        sampled: false,
        left_out: &[],
        attempts: 1,
        trouble: None,
    };
    for path in ["a", "b"] {
        let logs = Logs::open(folder.path(), folder.path(), "n1").unwrap();
        logs.json(&event(path));
        logs.flush().unwrap();
        let whole = std::fs::read(&log).unwrap();
        std::fs::write(&log, [&whole, &b"{\"event\":\"done\",\"path\":\"c"[..]].concat()).unwrap();
    }
    let told: Vec<PathBuf> = rendezvous.files().unwrap().into_keys().map(|(_, path)| path).collect();
    assert_eq!(told, ["a", "b"].map(PathBuf::from));
}

#[test]
fn a_line_that_was_cut_off_within_a_letter_keeps_no_others_from_being_read() {
    let (folder, rendezvous) = rendezvous();
    let line = |path: &str| format!("{{\"host\":\"n1\",\"path\":\"{path}\"}}\n").into_bytes();
    let torn = &line("ü")[..line("ü").len() - 4];
    assert!(std::str::from_utf8(torn).is_err(), "within the letter");
    std::fs::write(folder.path().join("n1.jsonl"), [&line("a")[..], torn, b"\n", &line("b")[..]].concat())
        .unwrap();
    let files = rendezvous.files().unwrap();
    assert_eq!(
        files.keys().map(|(_, path)| path.to_owned()).collect::<Vec<_>>(),
        ["a", "b"].map(PathBuf::from)
    );
}
