//! Persistent buffers, and whose they are.

use super::hosts::{fixture, job, on};
use super::socket::metrics;
use super::*;
use crate::objects;
use crate::rights::Rights;
use crate::transfers::asked;
use model::{InstanceId, NodeName};
use wire::control::{CreatePersistent, ErrorCode, JobProcess};

pub(super) fn create(name: &str) -> CreatePersistent {
    CreatePersistent {
        name: name.into(),
        owner: Owner { uid: 1000, gid: 1000 },
        capacity_bytes: 2 << 30,
        pool: None,
        access_modes: Vec::new(),
        shared: Some(false),
        redundancy: None,
        caller: "CLI".into(),
    }
}

impl Fixture {
    /// How an operator sees a session.
    pub(super) async fn status_of(&self, token: &Token) -> Result<SessionStatus, ApiError> {
        crate::status::of_token(&self.app, token, Rights::Operator).await
    }
}

async fn made(it: &Fixture, create: CreatePersistent) -> Result<(), ApiError> {
    let name = create.name.parse().expect("it can be a token");
    it.app.run(&name, Request::Create(Box::new(create))).await
}

const USES: &str = "#!/bin/sh\n#DW persistentdw name=data\n\
    #DW stage_in type=file source=/pfs/a destination=$DW_PERSISTENT_STRIPED_data/a\n";

#[tokio::test]
async fn a_persistent_buffer_is_made_once_and_its_name_is_taken() {
    let it = fixture();
    made(&it, create("data")).await.unwrap();
    made(&it, create("data")).await.unwrap();
    assert_eq!(it.site.world().fragments.len(), 2, "one grain on each node");
    let other = CreatePersistent { owner: Owner { uid: 2002, gid: 2002 }, ..create("data") };
    assert_eq!(made(&it, other).await.unwrap_err().code, ErrorCode::NameTaken);
    assert_eq!(made(&it, create("7")).await.unwrap_err().code, ErrorCode::BadName);
    let status = it.status_of(&Token::literal("data")).await.unwrap();
    assert!(status.persistent.is_some() && status.phase == Phase::Ready);
}

#[tokio::test]
async fn a_buffer_whose_name_has_a_dot_has_a_variable_that_shells_can_read() {
    let it = fixture();
    for name in ["test35.1", "a.b", "a-b"] {
        made(&it, create(name)).await.unwrap();
    }
    let script = "#!/bin/sh\n#DW persistentdw name=test35.1\n#DW persistentdw name=a.b\n#DW persistentdw name=a-b\n\
        #DW stage_out type=file source=$DW_PERSISTENT_STRIPED_test35.1/a destination=/pfs/a\n";
    it.setup(job(script)).await.unwrap();
    let variables = paths::paths(&it.app, &token()).await.unwrap().variables;
    let of = |name: &str| variables.get(&format!("DW_PERSISTENT_STRIPED_{name}")).map(String::as_str);
    assert!(
        of("test35.1").is_some_and(|path| path.ends_with("/mnt/7/persistent-test35.1/")),
        "{variables:?}"
    );
    assert_eq!(of("test35_1"), of("test35.1"));
    assert_eq!((of("a.b").is_some(), of("a-b").is_some(), of("a_b")), (true, true, None), "{variables:?}");
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap();
    it.app.teardown(&token(), Teardown::default()).await.unwrap();
    for name in ["test35.1", "a.b", "a-b"] {
        it.app.teardown(&Token::literal(name), Teardown::default()).await.unwrap();
    }
    assert!(it.is_empty());
}

#[tokio::test]
async fn a_name_is_taken_also_for_who_asks_while_the_buffer_is_being_made() {
    let it = fixture();
    let other = CreatePersistent { owner: Owner { uid: 2002, gid: 2002 }, ..create("data") };
    let (first, same, second) =
        tokio::join!(made(&it, create("data")), made(&it, create("data")), made(&it, other));
    first.and(same).unwrap();
    assert_eq!(second.unwrap_err().code, ErrorCode::NameTaken);
    assert_eq!(it.status_of(&Token::literal("data")).await.unwrap().owner.uid, 1000);
}

#[tokio::test]
async fn a_job_uses_stages_and_mounts_a_persistent_buffer_and_leaves_it() {
    let it = fixture();
    made(&it, create("data")).await.unwrap();
    it.setup(job(USES)).await.unwrap();
    assert_eq!(it.status().await.uses, ["data"]);
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
    {
        let world = it.site.world();
        let mount = &world.mounts["c1/7-persistent-data"];
        assert_eq!(mount.mountpoint, Path::new("/mnt/7/persistent-data"));
        assert!(!mount.exclusive, "another job may mount it any time");
    }
    let variables = paths::paths(&it.app, &token()).await.unwrap().variables;
    assert_eq!(variables["DW_PERSISTENT_STRIPED_data"], "/mnt/7/persistent-data/");
    assert_eq!(paths::real_size(&it.app, &token()).await.unwrap().capacity, 0);

    let error = it.app.teardown(&Token::literal("data"), Teardown { hurry: true }).await.unwrap_err();
    assert!(error.code == ErrorCode::BufferInUse && error.message.contains('7'), "{error}");
    let failed = it.app.session(&Token::literal("data")).await.unwrap().failed;
    assert!(failed.is_none(), "a refusal is no failure of the buffer: {failed:?}");
    it.run(post_run()).await.unwrap();
    it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert_eq!(it.site.world().fragments.len(), 2, "the buffer is still there");
    it.app.teardown(&Token::literal("data"), Teardown::default()).await.unwrap();
    assert!(it.is_empty());
}

#[tokio::test]
async fn what_a_job_staged_in_a_persistent_buffer_a_later_job_sees() {
    let eight = Token::literal("8");
    use model::phase::{Direction, StageKind};
    use wire::control::{Place, StageDue, StagePair, StageQuery, StageRequest, StageScope};
    let it = fixture();
    made(&it, create("data")).await.unwrap();
    it.setup(job("#!/bin/sh\n#DW persistentdw name=data\n")).await.unwrap();
    it.run(on(&["c1"])).await.unwrap();
    let place = |token: &'static str| Place::Session {
        token: Token::literal(token),
        persistent: Some(Token::literal("data")),
        access_mode: AccessMode::Striped,
    };
    let request = |name: &str, due| StageRequest {
        place: place(TOKEN),
        direction: Direction::Out,
        kind: StageKind::File,
        due,
        pairs: vec![StagePair::new(name, format!("/pfs/{name}"))],
    };
    let owner = Rights::Owner(1000);
    for (name, due) in [("now", StageDue::Now), ("later", StageDue::AtJobEnd)] {
        asked::ask(&it.app, owner, request(name, due)).await.unwrap();
    }
    it.run(post_run()).await.unwrap();
    assert_eq!(it.site.world().count("start_stage data.d2"), 0, "it waits for the job's end");
    it.run(data_out()).await.unwrap();
    it.app.teardown(&token(), Teardown::default()).await.unwrap();

    let uses = job("#!/bin/sh\n#DW persistentdw name=data\n");
    it.app.run(&eight, Request::Setup(Box::new(uses))).await.unwrap();
    it.app.run(&eight, on(&["c2"])).await.unwrap();
    let mountpoint = "/mnt/8/persistent-data".into();
    let mounted = Place::Mount { instance: "i1".into(), mountpoint };
    for place in [place("8"), mounted] {
        let query = StageQuery { place, scope: StageScope::All, wait_ms: 0, after: None };
        let counts = asked::counts(&it.app, owner, query).await.unwrap();
        assert_eq!((counts.complete, counts.deferred, counts.failed), (2, 0, 0));
    }
}

#[tokio::test]
async fn what_a_job_owes_of_a_persistent_buffer_is_counted_until_it_is_staged_out() {
    let it = fixture();
    made(&it, create("data")).await.unwrap();
    let out = "#DW stage_out type=file source=$DW_PERSISTENT_STRIPED_data/x destination=/pfs/x\n";
    it.setup(job(&format!("#!/bin/sh\n#DW persistentdw name=data\n{out}"))).await.unwrap();
    assert_eq!(it.status().await.bytes_dirty, 0, "it has written nothing");
    it.run(on(&["c1"])).await.unwrap();
    it.run(post_run()).await.unwrap();
    it.site.world().failing.insert("$DW_PERSISTENT_STRIPED_data/x".into());
    it.run(data_out()).await.unwrap_err();
    assert_eq!(it.status().await.bytes_dirty, 2 << 30, "as much as its buffer may hold");
    let told = metrics(&it).await;
    assert!(told.contains("forebay_sessions_kept{} 1.0\n"), "{told}");
    assert!(told.contains("forebay_dirty_bytes{} 2147483648.0\n"), "{told}");
    it.site.world().failing.clear();
    it.run(data_out()).await.unwrap();
    assert_eq!(it.status().await.bytes_dirty, 0);
}

#[tokio::test]
async fn another_users_buffer_is_refused_at_setup_unless_it_is_shared() {
    let it = fixture();
    let stranger = || Setup { owner: Owner { uid: 2002, gid: 2002 }, ..job(USES) };
    assert_eq!(it.setup(stranger()).await.unwrap_err().code, ErrorCode::NoSuchBuffer);
    made(&it, create("data")).await.unwrap();
    assert_eq!(it.setup(stranger()).await.unwrap_err().code, ErrorCode::NotYours);
    assert_eq!(it.status_of(&token()).await.unwrap_err().code, ErrorCode::NoSuchSession);
    let asked = |name: &str, submitter| {
        let script = job(&format!("#!/bin/sh\n#DW persistentdw name={name}\n")).script;
        JobProcess { script, owner: Owner { uid: 64030, gid: 64030 }, submitter }
    };
    let process = |asked| crate::lifecycle::job_process::run(&it.app, asked);
    assert_eq!(process(asked("data", Some(2002))).await.unwrap_err().code, ErrorCode::NotYours);
    process(asked("data", Some(1000))).await.unwrap();
    process(asked("data", None)).await.unwrap();
    process(asked("not-yet", Some(2002))).await.unwrap();
    made(&it, CreatePersistent { shared: None, ..create("open") }).await.unwrap();
    process(asked("open", Some(2002))).await.unwrap();
    let text = "#!/bin/sh\n#DW persistentdw name=open\n";
    it.setup(Setup { owner: Owner { uid: 2002, gid: 2002 }, ..job(text) }).await.unwrap();
    let mode =
        it.site.world().fragments[&(NodeName::literal("s1"), InstanceId::literal("i2"))].namespaces[0].mode;
    assert_eq!(mode, 0o755, "its owner says who may write");
}

#[tokio::test]
async fn a_job_with_bb_lines_only_has_a_session_without_a_buffer() {
    let it = fixture();
    it.setup(job("#!/bin/sh\n#BB create_persistent name=data capacity=2GiB\n")).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    it.run(post_run()).await.unwrap();
    it.app.teardown(&token(), Teardown::default()).await.unwrap();
    assert!(it.is_empty());
    let alone = Fixture::new();
    let error = alone.setup(request("#!/bin/sh\n#BB destroy_persistent name=data\n")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NoManager, "nobody would carry the line out");
}

#[tokio::test]
async fn objects_have_numbers_that_fit_together_and_owners_see_their_own() {
    let it = fixture();
    made(&it, CreatePersistent { shared: Some(true), ..create("data") }).await.unwrap();
    let text = format!("{USES}#DW jobdw type=scratch access_mode=striped,private capacity=1GiB\n");
    it.setup(job(&text)).await.unwrap();
    it.run(Request::DataIn).await.unwrap();
    it.run(on(&["c1", "c2"])).await.unwrap();
    let read = async |rights| {
        let views = it.site.nodes();
        it.app.database.transact(move |tx| objects::read(tx, &views, rights, |_| None)).await.unwrap()
    };
    let all = read(Rights::Operator).await;
    assert_eq!((all.sessions.len(), all.instances.len(), all.fragments.len()), (2, 2, 3));
    assert_eq!((all.configurations.len(), all.registrations.len(), all.activations.len()), (3, 4, 6));
    let job = all.sessions.iter().find(|session| session.token == TOKEN).unwrap();
    assert_eq!(job.hosts, ["c1", "c2"]);
    let instance = all.instances.iter().find(|instance| instance.session == job.id).unwrap();
    assert_eq!((instance.capacity_bytes, instance.nodes, instance.label.as_str()), (1 << 30, 1, TOKEN));
    let shared = all.configurations.iter().find(|c| c.instance != instance.id).unwrap();
    assert_eq!(shared.activations, 2);
    assert!(all.registrations.iter().any(|r| r.session == job.id && r.configuration == shared.id));
    let ids = [job.id, instance.id, shared.id, all.registrations[0].id].map(|id| id.to_string());
    for id in &ids {
        let longer_than_a_year_or_a_jobs_number = id.len() == 9;
        assert!(longer_than_a_year_or_a_jobs_number, "`dwstat … | grep {id}` finds other lines");
        assert_eq!(ids.iter().filter(|other| *other == id).count(), 1, "{ids:?}");
    }
    let stranger = read(Rights::Owner(2002)).await;
    assert_eq!(stranger.sessions.len(), 1, "the shared buffer only");
    assert!(stranger.activations.is_empty());
}

#[tokio::test]
async fn a_persistent_buffer_is_mirrored_where_its_pool_wishes_and_can_unless_its_maker_says_otherwise() {
    let it = fixture();
    let wish = |redundancy| {
        let mut world = it.site.world();
        world.cluster.as_mut().unwrap().pools[0].persistent_redundancy = redundancy;
    };
    let status = async |name| it.status_of(&Token::literal(name)).await.unwrap();
    wish(Redundancy::Mirror);
    made(&it, create("lasts")).await.unwrap();
    let instance = status("lasts").await.instance.unwrap();
    assert_eq!((instance.redundancy, instance.capacity_bytes), (Redundancy::Mirror, 2 << 30));
    assert_eq!(instance.allocated_bytes, 4 << 30, "of 8 GiB");
    let single = CreatePersistent { redundancy: Some(Redundancy::None), ..create("single") };
    made(&it, single).await.unwrap();
    assert_eq!(status("single").await.instance.unwrap().redundancy, Redundancy::None);

    // 2 GiB are left: too little for two of each byte.
    let asked = CreatePersistent { redundancy: Some(Redundancy::Mirror), ..create("asked") };
    assert_eq!(made(&it, asked).await.unwrap_err().code, ErrorCode::PoolFull);
    made(&it, create("fits")).await.unwrap();
    let fits = status("fits").await;
    assert_eq!(fits.instance.unwrap().redundancy, Redundancy::None);
    assert!(fits.notes.iter().any(|note| note.contains("on one node")), "{:?}", fits.notes);
}

#[tokio::test]
async fn a_pool_that_wishes_no_mirror_has_none_but_where_it_is_asked_for() {
    let it = fixture();
    made(&it, create("single")).await.unwrap();
    assert_eq!(
        it.status_of(&Token::literal("single")).await.unwrap().instance.unwrap().redundancy,
        Redundancy::None
    );
    let asked = CreatePersistent { redundancy: Some(Redundancy::Mirror), ..create("asked") };
    made(&it, asked).await.unwrap();
    assert_eq!(
        it.status_of(&Token::literal("asked")).await.unwrap().instance.unwrap().redundancy,
        Redundancy::Mirror
    );
}
