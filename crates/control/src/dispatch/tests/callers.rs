//! Who may ask for what: requests over a real socket, by callers of different user ids.

use std::net::IpAddr;

use api::CallError;
use axum::extract::Request as HttpRequest;
use axum::middleware::{Next, from_fn};
use daemon::client::Client;
use model::NodeName;
use serde_json::{Value, json};
use server::{Caller, OpenTo};
use tokio::sync::Notify;
use wire::control::{CreatePersistent, ErrorCode, JobSummary, NodeStatus, Objects, Status, TeardownReply};

use super::buffers::create;
use super::hosts::{fixture, job};
use super::*;
use crate::requests::{Handler, router};
use crate::rights::Policy;

const SLURM: u32 = 64030;
const ADMIN: u32 = 7;

/// A client that is taken for user `uid` of this host.
fn client(it: &Fixture, uid: u32) -> Client {
    client_at(it, uid, None)
}

/// The same, of another host.
fn client_at(it: &Fixture, uid: u32, address: Option<IpAddr>) -> Client {
    let socket =
        it.dir.path().join(format!("{uid}-{}.sock", address.map_or_else(String::new, |a| a.to_string())));
    let listener = server::bind(&socket, OpenTo::Everybody).expect("the folder is ours");
    let policy = Policy::Cluster { wlm: vec![SLURM], admins: vec![ADMIN] };
    let routes = router(Handler { app: Arc::clone(&it.app), policy, ending: Arc::new(Notify::new()) });
    let routes = routes.layer(from_fn(move |mut request: HttpRequest, next: Next| {
        request.extensions_mut().insert(Caller { uid, gid: uid, address });
        next.run(request)
    }));
    tokio::spawn(server::serve(vec![listener], routes, Vec::new(), std::future::pending()));
    Client::new(socket)
}

fn code<T: std::fmt::Debug>(result: Result<T, CallError>) -> ErrorCode {
    match result {
        Err(CallError::Refused(error)) => error.code,
        other => panic!("{other:?} is no refusal"),
    }
}

fn of(uid: u32) -> Setup {
    let text = "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=1GiB\n";
    Setup { owner: Owner { uid, gid: uid }, ..job(text) }
}

#[tokio::test]
async fn a_user_sees_and_touches_his_own_sessions_only() {
    let it = fixture();
    let (slurm, ada) = (client(&it, SLURM), client(&it, 1000));
    for (token, uid) in [("1", 1000), ("2", 2002)] {
        let path = format!("/v1/sessions/{token}/setup");
        let _: SessionStatus = slurm.post(&path, &of(uid)).await.unwrap();
    }
    let status: Status = ada.get("/v1/status").await.unwrap();
    let tokens: Vec<&str> = status.sessions.iter().map(|session| session.token.as_str()).collect();
    assert_eq!((tokens, status.nodes.len()), (vec!["1"], 4));
    let objects: Objects = ada.get("/v1/objects").await.unwrap();
    assert_eq!((objects.sessions.len(), objects.fragments.len()), (1, 1));
    assert_eq!(code(ada.get::<SessionStatus>("/v1/sessions/2").await), ErrorCode::NoSuchSession);
    for function in ["data_in", "data_out", "teardown", "cancel"] {
        let path = format!("/v1/sessions/2/{function}");
        assert_eq!(
            code(ada.post::<_, Value>(&path, &json!({})).await),
            ErrorCode::NoSuchSession,
            "{function}"
        );
    }
    let all: Status = slurm.get("/v1/status").await.unwrap();
    assert_eq!(all.sessions.len(), 2);
    let _: TeardownReply = ada.post("/v1/sessions/1/teardown", &json!({})).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_a_token_is_refused_before_anything_is_done_with_it() {
    let it = fixture();
    let slurm = client(&it, SLURM);
    for path in ["..%2Fx", "%ff", "a%20b", &"7".repeat(65)].map(|token| format!("/v1/sessions/{token}")) {
        assert_eq!(code(slurm.get::<SessionStatus>(&path).await), ErrorCode::BadToken, "{path}");
        let setup = slurm.post::<_, Value>(&format!("{path}/setup"), &of(1000)).await;
        assert_eq!(code(setup), ErrorCode::BadToken, "{path}");
    }
    let create = CreatePersistent { name: "../x".into(), ..create("data") };
    assert_eq!(code(slurm.post::<_, Value>("/v1/persistent", &create).await), ErrorCode::BadToken);
}

#[tokio::test]
async fn a_user_gets_buffers_and_mounts_through_the_workload_manager_only() {
    let it = fixture();
    let (slurm, ada) = (client(&it, SLURM), client(&it, 1000));
    assert_eq!(code(ada.post::<_, Value>("/v1/sessions/1/setup", &of(1000)).await), ErrorCode::NotAllowed);
    let _: SessionStatus = slurm.post("/v1/sessions/1/setup", &of(1000)).await.unwrap();
    let pre_run = json!({"mountpoint": "/etc", "hosts": ["c1"]});
    assert_eq!(code(ada.post::<_, Value>("/v1/sessions/1/pre_run", &pre_run).await), ErrorCode::NotAllowed);
    assert_eq!(code(ada.post::<_, Value>("/v1/persistent", &create("data")).await), ErrorCode::NotAllowed);
    let script = of(1000).script;
    let ask = json!({"script": script, "owner": {"uid": 1000, "gid": 1000}});
    let _: JobSummary = ada.post("/v1/job_process", &ask).await.unwrap();
}

#[tokio::test]
async fn a_workload_manager_gives_nobody_a_group_that_is_not_his() {
    let it = fixture();
    let (slurm, admin) = (client(&it, SLURM), client(&it, ADMIN));
    // Users 1 and 2 are of every Debian, in their own groups alone; nobody has the last one.
    let setup = |uid, gid| Setup { owner: Owner { uid, gid }, ..of(uid) };
    for (uid, gid) in [(1, 2), (1, 0), (4_000_000_000, 0)] {
        let refused = slurm.post::<_, Value>("/v1/sessions/1/setup", &setup(uid, gid)).await;
        assert_eq!(code(refused), ErrorCode::NotAllowed, "{uid} {gid}");
    }
    let _: SessionStatus = slurm.post("/v1/sessions/1/setup", &setup(1, 1)).await.unwrap();
    let _: SessionStatus = slurm.post("/v1/sessions/2/setup", &setup(4_000_000_000, 7)).await.unwrap();
    let _: SessionStatus = admin.post("/v1/sessions/3/setup", &setup(2, 0)).await.unwrap();
}

#[tokio::test]
async fn a_pool_that_is_for_some_users_refuses_the_others() {
    let it = fixture();
    it.site.world().cluster.as_mut().expect("it is a cluster").pools[0].uids =
        vec![51_000..=51_999, 53_000..=53_000];
    let slurm = client(&it, SLURM);
    let (mut buffer, creating) = (create("data"), "#!/bin/sh\n#BB create_persistent name=b capacity=1GiB\n");
    // Users whom no host knows, as their groups are not looked at.
    let users = [(50_999, false), (51_000, true), (51_999, true), (52_000, false), (53_000, true)];
    for (uid, may) in users {
        (buffer.name, buffer.capacity_bytes) = (format!("b{uid}"), 1 << 30);
        buffer.owner = Owner { uid, gid: uid };
        let ask = |text: &str| json!({"script": job(text).script, "owner": buffer.owner});
        let answers = [
            slurm.post::<_, Value>(&format!("/v1/sessions/{uid}/setup"), &of(uid)).await,
            slurm.post("/v1/job_process", &ask(&of(uid).script.text)).await,
            slurm.post("/v1/job_process", &ask(creating)).await,
            slurm.post("/v1/persistent", &buffer).await,
        ];
        for answer in answers {
            match answer {
                Ok(_) => assert!(may, "{uid}"),
                refused => {
                    assert!(!may && format!("{refused:?}").contains("wlm_pool"), "{uid} {refused:?}");
                    assert_eq!(code(refused), ErrorCode::NotAllowed);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_workload_manager_cannot_act_for_root_nor_for_the_operator() {
    let it = fixture();
    let (slurm, admin) = (client(&it, SLURM), client(&it, ADMIN));
    assert_eq!(code(slurm.post::<_, Value>("/v1/sessions/1/setup", &of(0)).await), ErrorCode::NotAllowed);
    let drain = json!({"reason": "a fan"});
    assert_eq!(code(slurm.post::<_, Value>("/v1/nodes/s1/drain", &drain).await), ErrorCode::NotAllowed);
    assert_eq!(code(slurm.post::<_, Value>("/v1/shutdown", &json!({})).await), ErrorCode::NotAllowed);
    let register = json!({"name": "evil", "roles": ["compute"], "address": "10.0.0.9:1", "pool": null,
        "capacity_bytes": 0, "mount_root": "/mnt", "version": "1"});
    assert_eq!(code(slurm.post::<_, Value>("/v1/nodes", &register).await), ErrorCode::NotAllowed);
    let _: Value = admin.post("/v1/nodes", &register).await.unwrap();
    let _: SessionStatus = admin.post("/v1/sessions/1/setup", &of(0)).await.unwrap();
}

#[tokio::test]
async fn an_operator_drains_resumes_and_forgets_nodes() {
    let it = fixture();
    let admin = client(&it, ADMIN);
    let register = |name: &str| {
        json!({"name": name, "roles": ["storage"], "address": "a:1", "pool": null,
        "capacity_bytes": 1 << 30, "mount_root": "/mnt", "version": "1"})
    };
    let _: Value = admin.post("/v1/nodes", &register("s3")).await.unwrap();
    let drained: NodeStatus = admin.post("/v1/nodes/s3/drain", &json!({"reason": "a fan"})).await.unwrap();
    assert_eq!(drained.drained.as_deref(), Some("a fan"));
    let _: Value = admin.post("/v1/nodes", &register("s3")).await.unwrap();
    let status: Status = admin.get("/v1/status").await.unwrap();
    let s3 = status.nodes.iter().find(|node| node.name == "s3").unwrap();
    assert!(s3.drained.is_some(), "a node that starts again stays drained");
    assert_eq!(status.pools[0].free, 8, "without its grain");
    let resumed: NodeStatus = admin.post("/v1/nodes/s3/resume", &json!({})).await.unwrap();
    assert_eq!(resumed.drained, None);
    assert_eq!(code(admin.delete::<Value>("/v1/nodes/s3").await), ErrorCode::NodeInUse);
    it.site.world().silent.insert(NodeName::literal("s3"));
    let _: Value = admin.delete("/v1/nodes/s3").await.unwrap();
    assert_eq!(code(admin.post::<_, Value>("/v1/nodes/s3/resume", &json!({})).await), ErrorCode::NoSuchNode);
    let wrong = json!({"name": "../x", "roles": [], "address": "", "pool": null,
        "capacity_bytes": 0, "mount_root": "/mnt", "version": "1"});
    assert_eq!(code(admin.post::<_, Value>("/v1/nodes", &wrong).await), ErrorCode::BadNode);
}

#[tokio::test]
async fn a_user_sees_of_another_s_shared_buffer_that_it_is_there_and_of_its_stages_his_own() {
    let it = fixture();
    let (slurm, ada, grace) = (client(&it, SLURM), client(&it, 1000), client(&it, 2002));
    let shared = CreatePersistent { shared: Some(true), caller: "SLURM".into(), ..create("data") };
    let _: SessionStatus = slurm.post("/v1/persistent", &shared).await.unwrap();
    let uses = "#!/bin/sh\n#DW persistentdw name=data\n";
    for (token, uid) in [("1", 1000), ("2", 2002)] {
        let setup = Setup { owner: Owner { uid, gid: uid }, ..job(uses) };
        let _: SessionStatus = slurm.post(&format!("/v1/sessions/{token}/setup"), &setup).await.unwrap();
        let place = json!({"session": {"token": token, "persistent": "data", "access_mode": "striped"}});
        let ask = json!({"place": place, "direction": "out", "kind": "file", "due": "at_job_end",
            "pairs": [{"buffer": format!("f{uid}"), "pfs": format!("/pfs/of-{uid}")}]});
        let client = if uid == 1000 { &ada } else { &grace };
        let _: Value = client.post("/v1/stages", &ask).await.unwrap();
    }
    for (client, own, other, users) in [(&ada, 1000, 2002, json!(["1"])), (&grace, 2002, 1000, json!(["2"]))]
    {
        let all: Value = client.get("/v1/status").await.unwrap();
        let seen: Value = client.get("/v1/sessions/data").await.unwrap();
        assert_eq!(seen["persistent"]["users"], users);
        assert_eq!(seen["stages"].as_array().unwrap().len(), 1);
        assert_eq!(seen["instance"]["capacity_bytes"], 2u64 << 30);
        for text in [all.to_string(), seen.to_string()] {
            assert!(text.contains(&format!("/pfs/of-{own}")), "{text}");
            assert!(!text.contains(&format!("/pfs/of-{other}")), "{text}");
        }
    }
    let all: SessionStatus = slurm.get("/v1/sessions/data").await.unwrap();
    assert_eq!(
        (all.stages.len(), all.persistent.unwrap().users.len()),
        (2, 2),
        "the workload manager sees all"
    );
    let seen: SessionStatus = grace.get("/v1/sessions/data").await.unwrap();
    assert_eq!((seen.script.text.as_str(), seen.timings_ms.len()), ("", 0));
}

#[tokio::test]
async fn the_name_of_a_node_that_lives_is_not_another_host_s() {
    let it = fixture();
    let host = |last| Some(IpAddr::from([10, 0, 0, last]));
    let register = |address: &str| {
        json!({"name": "s9", "roles": ["storage"], "address": address, "pool": null,
            "capacity_bytes": 1 << 30, "mount_root": "/mnt", "version": "1"})
    };
    let (first, second) = (client_at(&it, ADMIN, host(1)), client_at(&it, ADMIN, host(2)));
    let _: Value = first.post("/v1/nodes", &register("10.0.0.1:7071")).await.unwrap();
    let taken = second.post::<_, Value>("/v1/nodes", &register("10.0.0.2:7071")).await;
    assert!(format!("{taken:?}").contains("node s9 lives on host 10.0.0.1"), "{taken:?}");
    assert_eq!(code(taken), ErrorCode::BadNode);
    let here = client(&it, ADMIN).post::<_, Value>("/v1/nodes", &register("127.0.0.1:7071")).await;
    assert_eq!(code(here), ErrorCode::BadNode);
    let status: Status = first.get("/v1/status").await.unwrap();
    let address =
        |status: &Status| status.nodes.iter().find(|node| node.name == "s9").unwrap().address.clone();
    assert_eq!(address(&status), "10.0.0.1:7071");
    let _: Value = first.post("/v1/nodes", &register("10.0.0.1:8071")).await.unwrap();
    it.site.world().silent.insert(NodeName::literal("s9"));
    let _: Value = second.post("/v1/nodes", &register("10.0.0.2:7071")).await.unwrap();
}

#[tokio::test]
async fn a_node_that_reaches_control_from_two_addresses_is_one_host() {
    let it = fixture();
    let host = |last| client_at(&it, ADMIN, Some(IpAddr::from([10, 0, 0, last])));
    let register = |address: &str| {
        json!({"name": "s9", "roles": ["storage"], "address": address, "pool": null,
            "capacity_bytes": 1 << 30, "mount_root": "/mnt", "version": "1"})
    };
    let (first, second) = (host(1), host(2));
    for client in [&first, &second] {
        let _: Value = client.post("/v1/nodes", &register("10.0.0.1:7071")).await.unwrap();
    }
    let taken = second.post::<_, Value>("/v1/nodes", &register("10.0.0.2:7071")).await;
    assert!(format!("{taken:?}").contains("node s9 lives on host 10.0.0.1"), "{taken:?}");
}

#[tokio::test]
async fn a_node_that_control_was_not_told_of_is_refused_where_it_was_told_of_some() {
    let it = fixture();
    it.site.world().cluster.as_mut().expect("it is a cluster").nodes =
        [NodeName::literal("n1"), NodeName::literal("n2")].into();
    let admin = client(&it, ADMIN);
    let register = |name: &str| {
        json!({"name": name, "roles": ["storage"], "address": "a:1", "pool": null,
            "capacity_bytes": 1 << 30, "mount_root": "/mnt", "version": "1"})
    };
    let _: Value = admin.post("/v1/nodes", &register("n2")).await.unwrap();
    let refused = admin.post::<_, Value>("/v1/nodes", &register("n3")).await;
    assert!(format!("{refused:?}").contains("node n3 is not one of this cluster's"), "{refused:?}");
    assert_eq!(code(refused), ErrorCode::BadNode);
}
