//! Control dies at every step of every function; the next life converges.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::*;

fn life() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// The functions of a whole job, in order, on one machine or on two hosts of a cluster.
fn functions(hosts: bool) -> Vec<fn() -> Request> {
    let setup: fn() -> Request = match hosts {
        true => || {
            let job = JOB.replace("10GB", "4GiB");
            Request::Setup(Box::new(hosts::job(&job)))
        },
        false => || Request::Setup(Box::new(request(JOB))),
    };
    vec![
        setup,
        || Request::DataIn,
        if hosts { || hosts::on(&["c1", "c2"]) } else { pre_run },
        post_run,
        || data_out(),
        || Request::Teardown(Teardown::default()),
    ]
}

/// Runs the whole job; where control dies, a new one gets the same call again. Whether it died.
fn run_job(dir: &Arc<TempDir>, site: &MemorySite) -> bool {
    let mut died = false;
    let mut runtime = life();
    let mut it = runtime.block_on(async { Fixture::over(Arc::clone(dir), site.clone()) });
    let on_hosts = site.cluster().is_some();
    for function in functions(on_hosts) {
        let result = runtime.block_on(async {
            tokio::select! {
                result = it.run(function()) => Some(result),
                () = site.died.notified() => None,
            }
        });
        if let Some(result) = result {
            result.expect("the function succeeds");
            continue;
        }
        died = true;
        // What the dead one still did to the database would otherwise be done after what its successor does.
        runtime.shutdown_timeout(Duration::from_secs(60));
        runtime = life();
        it = it.restart();
        runtime.block_on(it.run(function())).expect("the repeated function succeeds");
    }
    let status = runtime.block_on(it.status());
    assert_eq!(status.phase, Phase::TornDown);
    assert!(it.is_empty(), "nothing is left on the nodes");
    died
}

#[test]
fn a_death_at_any_step_of_a_job_is_made_good_by_calling_again() {
    die_everywhere(MemorySite::default);
}

#[test]
fn the_same_holds_on_a_cluster() {
    die_everywhere(hosts::cluster);
}

fn die_everywhere(site: fn() -> MemorySite) {
    let mut steps = 0;
    loop {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let site = site();
        site.world().die_at = Some(steps + 1);
        if !run_job(&dir, &site) {
            break;
        }
        steps += 1;
    }
    assert!(steps > 30, "a job makes more calls than {steps} steps");
}

#[test]
fn a_complete_stage_is_not_copied_again_after_a_restart() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let site = MemorySite::default();
    site.world().hanging.insert("/pfs/b".into());
    let first = life();
    let it = first.block_on(async {
        let it = Fixture::over(Arc::clone(&dir), site.clone());
        it.ready().await;
        tokio::select! {
            result = it.run(Request::DataIn) => panic!("{result:?}, but its second stage hangs"),
            () = async { while site.world().count("stage 7.1") == 0 { tokio::task::yield_now().await } } => {}
        }
        it
    });
    first.shutdown_background();
    site.world().stages.get_mut("7.1").unwrap().state = StageState::Complete;
    life().block_on(async {
        let it = it.restart();
        assert_eq!(it.status().await.stages[1].state, StageState::Active);
        it.run(Request::DataIn).await.unwrap();
    });
    assert_eq!(site.world().count("start_stage 7.0"), 1);
}
