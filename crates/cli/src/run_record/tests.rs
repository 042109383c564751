//! Records and locks on disks of tests.

use super::*;

fn script() -> Script {
    Script {
        text: "#!/bin/sh\n".into(),
        path: "/a/job.sh".into(),
        workdir: "/a".into(),
        job_name: "job".into(),
        user: "u".into(),
    }
}

#[test]
fn a_record_comes_back_as_it_was_written_and_the_newest_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(folder.path()).unwrap();
    for token in ["9", "10", "2"] {
        let mut record = RunRecord::new(Token::literal(token), script(), "/a".into());
        record.job = Job::Ended { exit: JobExit::Signal(9), elapsed_ms: 5 };
        records.write(&records.lock(&record.token).unwrap(), &record).unwrap();
    }
    let tokens: Vec<Token> = records.all().unwrap().into_iter().map(|record| record.token).collect();
    assert_eq!(tokens, ["10", "9", "2"]);
    assert_eq!(
        records.read(&Token::literal("9")).unwrap().unwrap().job,
        Job::Ended { exit: JobExit::Signal(9), elapsed_ms: 5 }
    );
}

#[test]
fn a_record_is_as_it_always_was_and_one_that_is_not_understood_is_named_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(folder.path()).unwrap();
    let token = Token::literal("9");
    let record = RunRecord {
        volume: Some(VolumeKind::Image),
        forebay_pid: 1,
        ..RunRecord::new(token.clone(), script(), "/a".into())
    };
    records.write(&records.lock(&token).unwrap(), &record).unwrap();
    let file = folder.path().join("run/9.json");
    let text: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let script = serde_json::json!({
        "text": "#!/bin/sh\n", "path": "/a/job.sh", "workdir": "/a", "job_name": "job", "user": "u"
    });
    let expected = serde_json::json!({
        "schema": 1, "token": "9", "session_created_unix": null, "forebay_pid": 1, "script": script,
        "added": {"lines": []}, "is_command": false, "arguments": [], "submit_folder": "/a", "array_task": null,
        "fragments": null, "hosts": [], "volume": "image", "keep": false, "job": {"state": "not_started"},
        "releasing": false
    });
    assert_eq!(text, expected);
    for text in ["{", r#"{"schema":2}"#] {
        std::fs::write(&file, text).unwrap();
        let refused = records.read(&token).unwrap_err().to_string();
        assert!(refused.contains("run/9.json"), "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_session_that_is_being_run_is_refused_with_the_process_that_runs_it() {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(folder.path()).unwrap();
    let held = records.lock(&Token::literal("3")).unwrap();
    let refused = records.lock(&Token::literal("3")).unwrap_err();
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())));
    assert!(records.is_live(&Token::literal("3")));
    records.remove(held, &Token::literal("3"));
    assert!(!records.is_live(&Token::literal("3")));
    assert!(!disk::exists(&folder.path().join("run/3.lock")).unwrap());
}

#[test]
fn on_a_full_disk_the_end_of_a_job_is_noted_and_its_buffer_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "a-test"])
        .arg(folder.path())
        .status();
    if !mount.is_ok_and(|exit| exit.success()) {
        return eprintln!("skipped: only root can mount a small disk");
    }
    let noted = std::panic::catch_unwind(|| {
        let records = Records::open(folder.path()).unwrap();
        let lock = records.lock(&Token::literal("5")).unwrap();
        let mut record = RunRecord::new(Token::literal("5"), script(), "/a".into());
        records.write(&lock, &record).unwrap();
        // As its job does that fills the buffer.
        std::fs::write(folder.path().join("data"), vec![1; 4 << 20]).unwrap_err();
        // As `forebay umount` and `rm` do, of a buffer that was mounted by hand.
        drop(records.lock(&Token::literal("6")).unwrap());
        record.job = Job::Ended { exit: JobExit::Status(0), elapsed_ms: 5 };
        records.write(&lock, &record).unwrap();
        assert_eq!(records.read(&Token::literal("5")).unwrap().unwrap().job, record.job);
    });
    let _ = std::process::Command::new("umount").arg(folder.path()).status();
    noted.unwrap();
}

#[test]
fn a_half_written_record_does_not_replace_the_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::open(folder.path()).unwrap();
    let lock = records.lock(&Token::literal("4")).unwrap();
    records.write(&lock, &RunRecord::new(Token::literal("4"), script(), "/a".into())).unwrap();
    std::fs::write(folder.path().join("run/4.new"), "{\"tok").unwrap();
    assert_eq!(records.read(&Token::literal("4")).unwrap().unwrap().script, script());
    assert_eq!(records.all().unwrap().len(), 1);
}
