//! Jobs on two hosts, from setup to teardown.

use std::fs;

use api::CallError;
use model::phase::Redundancy;
use serde_json::json;
use wire::control::{CreatePersistent, ErrorCode, Objects, Paths, RealSize, SessionStatus, TeardownReply};

use crate::hosts::{Cluster, OWNER, hosts, nothing};

fn code(result: Result<SessionStatus, CallError>) -> ErrorCode {
    match result {
        Err(CallError::Refused(error)) => error.code,
        other => panic!("{other:?} is no refusal"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_two_hosts_shares_its_striped_files_and_not_its_private_ones() {
    let Some(it) = Cluster::start().await else { return };
    fs::write(it.pfs("input"), "from the pfs").unwrap();
    let directives = format!(
        "#DW jobdw type=scratch access_mode=striped,private capacity=96MiB\n\
         #DW stage_in type=file source={0}/input destination=$DW_JOB_STRIPED/input\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/output destination={0}/output\n",
        it.pfs("").display().to_string().trim_end_matches('/')
    );
    let setup = serde_json::to_value(it.setup(&directives)).unwrap();
    let status = it.call("101", "setup", setup).await.unwrap();
    let instance = status.instance.unwrap();
    assert_eq!((instance.capacity_bytes, instance.nodes.len()), (96 << 20, 2));
    let size: RealSize = it.client().get("/v1/sessions/101/real_size").await.unwrap();
    assert_eq!(size.capacity, 96 << 20);
    it.call("101", "data_in", nothing()).await.unwrap();
    let status = it.call("101", "pre_run", hosts(&["n1", "n2"])).await.unwrap();
    assert_eq!(status.activations.len(), 4);

    let place = |node: &str, mode: &str| it.mount_root(node).join("101").join(mode);
    assert_eq!(fs::read_to_string(place("n1", "striped").join("input")).unwrap(), "from the pfs");
    fs::write(place("n1", "striped").join("output"), "written on n1").unwrap();
    assert_eq!(fs::read_to_string(place("n2", "striped").join("output")).unwrap(), "written on n1");
    fs::write(place("n1", "private").join("mine"), "n1").unwrap();
    fs::write(place("n2", "private").join("mine"), "n2").unwrap();
    assert_eq!(fs::read_to_string(place("n1", "private").join("mine")).unwrap(), "n1");
    std::os::unix::fs::chown(place("n1", "striped").join("output"), Some(OWNER.uid), Some(OWNER.gid))
        .unwrap();

    let paths: Paths = it.client().get("/v1/sessions/101/paths").await.unwrap();
    assert!(paths.variables["DW_JOB_STRIPED"].ends_with("/101/striped/"), "{paths:?}");
    let objects: Objects = it.remote_client().get("/v1/objects").await.unwrap();
    assert_eq!((objects.sessions[0].token.as_str(), objects.sessions[0].creator.as_str()), ("101", "SLURM"));
    assert_eq!((objects.fragments.len(), objects.configurations.len(), objects.activations.len()), (2, 2, 4));
    assert_eq!(objects.instances[0].state.to_string(), "CA---");

    it.call("101", "post_run", nothing()).await.unwrap();
    assert!(it.mounts().is_empty(), "{:?}", it.mounts());
    it.call("101", "data_out", nothing()).await.unwrap();
    assert_eq!(fs::read_to_string(it.pfs("output")).unwrap(), "written on n1");
    let reply: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": false})).await.unwrap();
    assert_eq!((reply.kept, reply.renamed), (None, None));
    let pool = it.status().await.pools.remove(0);
    assert_eq!((pool.name.as_str(), pool.quantity, pool.free), ("wlm_pool", 32, 32));
    assert!(!it.mount_root("n1").join("101").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_buffer_outlives_jobs_and_stays_while_one_uses_it() {
    let Some(it) = Cluster::start().await else { return };
    let create = CreatePersistent {
        name: "data".into(),
        owner: OWNER,
        capacity_bytes: 32 << 20,
        pool: None,
        access_modes: vec![],
        shared: Some(false),
        redundancy: None,
        caller: "CLI".into(),
    };
    let made: SessionStatus = it.post("/v1/persistent", &create).await.unwrap();
    assert_eq!((made.token.as_str(), made.persistent.unwrap().shared), ("data", false));
    let instance = made.instance.unwrap();
    assert_eq!((instance.redundancy, instance.nodes.len()), (Redundancy::Mirror, 2), "it is to last");
    assert_eq!((instance.capacity_bytes, instance.allocated_bytes), (32 << 20, 64 << 20));
    let _again: SessionStatus = it.post("/v1/persistent", &create).await.unwrap();

    let mut stranger = it.setup("#DW persistentdw name=data\n");
    stranger.owner.uid = 1;
    let refused = it.call("7", "setup", serde_json::to_value(stranger).unwrap()).await;
    assert_eq!(code(refused), ErrorCode::NotYours);

    for (token, host) in [("8", "n1"), ("9", "n2")] {
        let job = it.setup("#DW persistentdw name=data\n");
        it.call(token, "setup", serde_json::to_value(job).unwrap()).await.unwrap();
        it.call(token, "data_in", nothing()).await.unwrap();
        it.call(token, "pre_run", hosts(&[host])).await.unwrap();
    }
    let place = |node: &str, token: &str| it.mount_root(node).join(token).join("persistent-data/file");
    fs::write(place("n1", "8"), "of job 8").unwrap();
    assert_eq!(fs::read_to_string(place("n2", "9")).unwrap(), "of job 8");
    let paths: Paths = it.client().get("/v1/sessions/9/paths").await.unwrap();
    assert!(paths.variables["DW_PERSISTENT_STRIPED_data"].ends_with("/9/persistent-data/"), "{paths:?}");

    let teardown = "/v1/sessions/data/teardown";
    let in_use = it.post::<_, TeardownReply>(teardown, &json!({"hurry": true})).await.unwrap_err();
    assert!(matches!(&in_use, CallError::Refused(error) if error.message.contains("8, 9")), "{in_use:?}");
    for token in ["8", "9"] {
        it.call(token, "post_run", nothing()).await.unwrap();
        let path = format!("/v1/sessions/{token}/teardown");
        let _: TeardownReply = it.post(&path, &json!({"hurry": false})).await.unwrap();
    }
    let _: TeardownReply = it.post(teardown, &json!({"hurry": false})).await.unwrap();
    assert!(it.status().await.sessions.is_empty() && it.mounts().is_empty());
}
