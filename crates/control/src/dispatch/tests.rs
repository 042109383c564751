//! The life-cycle rules, against a site in memory and a real database.

mod buffers;
mod callers;
mod crash;
mod encrypted;
mod fair;
mod full_disk;
mod hosts;
mod job_nodes;
mod older_copy;
mod on_demand;
mod out_of_order;
mod rekeyed;
mod reuse;
mod socket;
mod squashed;
mod staging;
mod starting;

use std::path::Path;
use std::sync::Arc;

use model::NodeName;
use model::phase::{AccessMode, Function, Phase, Redundancy, StageState};
use tempfile::TempDir;
use wire::control::{
    CLI, DataOut, ErrorCode, Owner, PostRun, PreRun, Script, SessionStatus, Setup, Teardown, VolumeKind,
};

use super::*;
use crate::audit::Audit;
use crate::lifecycle::paths;
use crate::memory_site::MemorySite;
use crate::state::Database;

const TOKEN: &str = "7";

fn token() -> Token {
    Token::literal(TOKEN)
}

const JOB: &str = "#!/bin/sh\n\
    #DW jobdw type=scratch access_mode=striped,private capacity=10GB\n\
    #DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a\n\
    #DW stage_in type=file source=/pfs/b destination=$DW_JOB_STRIPED/b\n\
    #DW stage_out type=file source=$DW_JOB_STRIPED/x destination=/pfs/x\n\
    #DW stage_out type=file source=$DW_JOB_STRIPED/y destination=/pfs/y\n";

/// One life of control over a machine and a database that outlive it.
struct Fixture {
    dir: Arc<TempDir>,
    site: MemorySite,
    app: Arc<App<MemorySite>>,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        Fixture::over(dir, MemorySite::default())
    }

    fn over(dir: Arc<TempDir>, site: MemorySite) -> Fixture {
        let database = Database::open(&dir.path().join("control.db")).expect("the folder is ours");
        let app = Arc::new(App::new(database, site.clone(), Audit::default()));
        Fixture { dir, site, app }
    }

    /// The next life.
    fn restart(&self) -> Fixture {
        Fixture::over(Arc::clone(&self.dir), self.site.clone())
    }

    async fn run(&self, request: Request) -> Result<(), ApiError> {
        self.app.run(&token(), request).await
    }

    async fn setup(&self, setup: Setup) -> Result<(), ApiError> {
        self.run(Request::Setup(Box::new(setup))).await
    }

    async fn ready(&self) {
        self.setup(request(JOB)).await.expect("setup");
    }

    /// As far as a job that has run.
    async fn unmounted(&self) {
        self.ready().await;
        self.run(Request::DataIn).await.expect("data_in");
        self.run(pre_run()).await.expect("pre_run");
        self.run(post_run()).await.expect("post_run");
    }

    async fn status(&self) -> SessionStatus {
        self.status_of(&token()).await.expect("the session is known")
    }

    fn is_empty(&self) -> bool {
        let world = self.site.world();
        world.fragments.is_empty() && world.mounts.is_empty() && world.stages.is_empty()
    }
}

fn request(text: &str) -> Setup {
    let script = Script {
        text: text.into(),
        path: "job.sh".into(),
        workdir: "/pfs".into(),
        job_name: "job".into(),
        user: "u".into(),
    };
    Setup {
        owner: Owner { uid: 1000, gid: 1000 },
        script,
        fragments: Some(2),
        volume: None,
        caller: CLI.to_owned(),
        capacity: None,
        hosts: Vec::new(),
    }
}

fn pre_run() -> Request {
    Request::PreRun(PreRun::default())
}

fn data_out() -> Request {
    Request::DataOut(DataOut::default())
}

fn post_run() -> Request {
    Request::PostRun(PostRun::default())
}

#[tokio::test]
async fn a_job_goes_through_its_life_and_leaves_nothing() {
    let it = Fixture::new();
    it.ready().await;
    let status = it.status().await;
    let instance = status.instance.expect("allocated");
    assert_eq!(
        (instance.id.as_str(), instance.nodes.as_slice()),
        ("i1", &[NodeName::literal("n0"), NodeName::literal("n1")][..])
    );
    assert_eq!(instance.capacity_bytes, 9538 << 20, "two fragments of whole grains");
    assert!(status.notes[0].contains("rounded up"));
    assert_eq!(status.stages[2].state, StageState::Deferred);
    it.run(Request::DataIn).await.unwrap();
    it.run(pre_run()).await.unwrap();
    assert_eq!(it.site.world().mounts["7-private"].target.layout.width, 1);
    let variables = paths::paths(&it.app, &token()).await.unwrap().variables;
    assert_eq!(variables["DW_JOB_STRIPED"], "/dir/mnt/7/striped/");
    assert_eq!(variables["DW_JOB_PRIVATE"], "/dir/mnt/7/private/");
    assert!(it.status().await.activations.iter().all(|activation| activation.mounted));
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap();
    let status = it.status().await;
    assert_eq!(status.phase, Phase::StagedOut);
    assert!(status.stages.iter().all(|stage| stage.state == StageState::Complete));
    let functions: Vec<_> = status.timings_ms.iter().map(|(function, _)| *function).collect();
    use Function::{DataIn, DataOut, PostRun, PreRun, Setup};
    assert_eq!(functions, [Setup, DataIn, PreRun, PostRun, DataOut]);
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None);
    assert!(it.is_empty());
    assert_eq!(it.app.teardown(&token(), Teardown::default()).await.unwrap().kept, None, "again");
}

#[tokio::test]
async fn a_repeated_function_does_nothing_twice() {
    let it = Fixture::new();
    it.unmounted().await;
    it.run(data_out()).await.unwrap();
    let calls = it.site.world().calls.len();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap();
    assert_eq!(it.site.world().calls.len(), calls);
    assert_eq!(it.status().await.phase, Phase::StagedOut);
}

#[tokio::test]
async fn a_setup_that_fails_leaves_nothing_allocated_and_can_be_repeated() {
    let it = Fixture::new();
    it.site.world().refused.insert("create_fragment n1".into());
    let error = it.setup(request(JOB)).await.unwrap_err();
    assert!(it.is_empty());
    let status = it.status().await;
    assert_eq!((status.phase, status.failed), (Phase::Registered, Some((Function::Setup, error))));
    assert!(status.instance.is_none());
    it.site.world().refused.clear();
    it.ready().await;
    assert_eq!(it.status().await.failed, None);
    assert_eq!(it.site.world().fragments.len(), 2);
}

#[tokio::test]
async fn a_node_that_still_starts_a_fragment_is_asked_again() {
    let it = Fixture::new();
    it.site.world().starting = 5;
    it.ready().await;
    assert_eq!(it.site.world().count("create_fragment"), 2 + 5);
    let it = Fixture::new();
    (it.site.world().images, it.site.world().starting) = (true, 1000);
    let error = it.setup(request(JOB)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::FragmentStarting, "and not for ever");
    assert!(it.status().await.instance.is_none(), "it is no reason for another kind of volume");
}

#[tokio::test]
async fn without_a_wish_an_image_is_tried_and_a_directory_is_the_way_out() {
    let it = Fixture::new();
    it.site.world().images = true;
    it.ready().await;
    assert_eq!(it.status().await.instance.unwrap().volume, VolumeKind::Image);
    let it = Fixture::new();
    it.site.world().images = true;
    it.site.world().refused.insert("create_fragment n1".into());
    it.setup(request(JOB)).await.unwrap_err();
    assert_eq!(it.site.world().count("create_fragment"), 4, "both kinds were tried on both nodes");
    assert!(it.is_empty());
    let wish = Setup { volume: Some(VolumeKind::Image), ..request(JOB) };
    it.setup(wish).await.unwrap_err();
    assert_eq!(it.site.world().count("create_fragment"), 6, "a wish is not replaced");
}

#[tokio::test]
async fn what_the_pool_cannot_hold_is_refused_with_both_numbers() {
    let it = Fixture::new();
    it.site.world().available_bytes = 12_000_000_000;
    it.ready().await;
    let error = it.app.run(&Token::literal("8"), Request::Setup(Box::new(request(JOB)))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::PoolFull, "{error}");
    assert_eq!(it.site.world().fragments.len(), 2);
    let it = Fixture::new();
    it.site.world().available_bytes = 1 << 30;
    let error = it.setup(request(JOB)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::PoolTooSmall);
    assert!(
        error.message.contains("10001317888 bytes") && error.message.contains("1073741824 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn interruptions_of_a_mount_are_still_told_after_the_unmount() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    it.run(pre_run()).await.unwrap();
    it.site.world().interruptions = 2;
    it.run(post_run()).await.unwrap();
    let activation = it.status().await.activations.remove(0);
    assert_eq!((activation.mounted, activation.interruptions), (false, 2));
}

#[tokio::test]
async fn a_mount_that_fails_leaves_nothing_mounted_and_the_buffer_can_be_released() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    it.site.world().refused.insert("mount 7-private".into());
    it.run(pre_run()).await.unwrap_err();
    assert!(it.site.world().mounts.is_empty());
    assert_eq!(
        it.app.teardown(&token(), Teardown::default()).await.unwrap().kept,
        None,
        "the job never wrote"
    );
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_buffer_used_by_hand_is_mounted_where_asked_and_again_later() {
    let it = Fixture::new();
    let script = "#DW jobdw type=scratch access_mode=striped capacity=1GiB\n";
    it.setup(request(script)).await.unwrap();
    let here = || Request::PreRun(PreRun { mountpoint: Some("/home/u/fast".into()), ..PreRun::default() });
    it.run(here()).await.unwrap();
    assert_eq!(it.site.world().mounts["7-striped"].mountpoint, Path::new("/home/u/fast"));
    assert_eq!(paths::paths(&it.app, &token()).await.unwrap().variables["DW_JOB_STRIPED"], "/home/u/fast/");
    it.run(post_run()).await.unwrap();
    it.run(here()).await.unwrap();
    assert_eq!((it.status().await.phase, it.site.world().mounts.len()), (Phase::Mounted, 1));
    it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert!(it.is_empty());
}

#[tokio::test]
async fn two_namespaces_do_not_fit_one_mount_point() {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    let here = Request::PreRun(PreRun { mountpoint: Some("/home/u/fast".into()), ..PreRun::default() });
    assert_eq!(it.run(here).await.unwrap_err().code, ErrorCode::OneMountpoint);
    let status = it.status().await;
    assert_eq!(status.instance.unwrap().access_modes, [AccessMode::Striped, AccessMode::Private]);
}
