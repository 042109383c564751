//! What the summary shows of runs that ended in each way.

use wire::control::Remark;

use super::*;
use crate::fixtures;

fn told(exit: u8) -> Told {
    Told {
        ended: true,
        status: Some(fixtures::session()),
        job: Some((JobExit::Status(exit), Duration::from_millis(1_500))),
        started: true,
        teardown: None,
        kept: Some("its stage-out is not complete".into()),
    }
}

fn output() -> Output {
    Output::new(false, None)
}

#[test]
fn a_failed_stage_out_shows_what_is_kept_and_how_to_retry() {
    let ending = Ending::StageOutFailed(fixtures::refusal());
    let text = Summary::new(&Token::literal("3"), &ending, &told(0), &output()).text();
    let expected = "\
forebay: session 3 (stars): stage out failed, job exit status 0
  set up           150 ms
  stage in          2.0 s
    stage_in /pfs/stars -> $DW_JOB_STRIPED/stars
      38 MiB, 4 entries, 2.0 s, 19 MiB/s, verified
  mount             40 ms
  job               1.5 s
  unmount           30 ms
  stage out        failed
    stage_out $DW_JOB_STRIPED/results -> /pfs/results
      2 MiB, 2 entries, 2.0 s, 1 MiB/s, FAILED (1 entry not copied)
  error      1 of 3 entries could not be staged out; correct the cause and run `forebay stage retry 3`
  kept       buffer 3: its stage-out is not complete
             forebay stage retry 3
             forebay rm 3";
    assert_eq!(text, expected);
}

#[test]
fn what_a_stage_could_not_keep_is_said_at_the_end() {
    let mut told = told(0);
    let notes = &mut told.status.as_mut().unwrap().stages[0].notes;
    let remark = |path: &str| Remark { path: path.into(), text: "attribute user.a cannot be kept".into() };
    notes.remarks = ["/pfs/a", "/pfs/b", "/pfs/c", "/pfs/d"].map(remark).to_vec();
    notes.remarks_total = 120;
    let text = Summary::new(&Token::literal("3"), &Ending::Completed, &told, &output()).text();
    assert!(text.contains("      remark: /pfs/a: attribute user.a cannot be kept\n"), "{text}");
    assert!(!text.contains("/pfs/d"), "{text}");
    assert!(text.contains("      and 117 more remarks; --json has up to 100\n"), "{text}");
}

#[test]
fn advised_commands_repeat_the_folder() {
    let output = Output::new(false, Some("/scratch/b".into()));
    let ending = Ending::StageOutFailed(fixtures::refusal());
    let text = Summary::new(&Token::literal("3"), &ending, &told(0), &output).text();
    assert!(text.contains("forebay stage retry 3 --dir /scratch/b"), "{text}");
}

#[test]
fn the_jobs_status_wins_over_that_of_its_stage_out() {
    let failed = || Ending::StageOutFailed(fixtures::refusal());
    assert_eq!(failed().exit_status(Some(JobExit::Status(0))), 74);
    assert_eq!(failed().exit_status(Some(JobExit::Status(3))), 3);
    assert_eq!(Ending::Completed.exit_status(Some(JobExit::Signal(9))), 137);
    assert_eq!(Ending::Completed.exit_status(Some(JobExit::Status(0))), 0);
    assert_eq!(Ending::Cancelled.exit_status(None), 130);
    assert_eq!(Ending::StageInFailed(fixtures::refusal()).exit_status(None), 69);
}

#[test]
fn programs_read_the_same_facts() {
    let mut told = Told { kept: None, ..told(0) };
    told.status.as_mut().unwrap().stages[1].state = StageState::Complete;
    let summary = Summary::new(&Token::literal("3"), &Ending::Completed, &told, &output());
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["outcome"], "completed");
    assert_eq!(json["exit_status"], 0);
    assert_eq!(json["job"]["elapsed_ms"], 1_500);
    assert_eq!(json["stages"][0]["progress"]["bytes_done"], 38 << 20);
    assert_eq!(json["stages"][0]["verified"], true);
    assert_eq!(json["results"][0], "/pfs/results");
    assert_eq!(json["kept"], serde_json::Value::Null);
    let phases: Vec<&str> =
        json["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["setup", "data_in", "pre_run", "job", "post_run"]);
}
