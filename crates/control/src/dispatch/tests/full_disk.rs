//! A disk of control that is full, or fails, for one table of its database.

use wire::control::ErrorCode;

use super::*;

async fn execute(it: &Fixture, sql: String) {
    it.app.database.transact(move |tx| Ok(tx.execute_batch(&sql)?)).await.unwrap();
}

async fn takes_nothing(it: &Fixture, table: &str) {
    let full = |change| {
        format!(
            "CREATE TRIGGER full_{change} BEFORE {change} ON {table}
             BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END;"
        )
    };
    execute(it, full("INSERT") + &full("UPDATE")).await;
}

async fn takes_all(it: &Fixture) {
    execute(it, "DROP TRIGGER full_INSERT; DROP TRIGGER full_UPDATE;".into()).await;
}

#[tokio::test]
async fn on_a_full_disk_of_control_an_unmount_is_answered_as_the_status_tells_and_ends_right_when_asked_again()
 {
    let it = Fixture::new();
    it.ready().await;
    it.run(Request::DataIn).await.unwrap();
    it.run(pre_run()).await.unwrap();
    let has_mounts = |status: &SessionStatus| status.activations.iter().any(|mount| mount.mounted);
    for table in ["activations", "sessions"] {
        takes_nothing(&it, table).await;
        let error = it.run(post_run()).await.unwrap_err();
        assert!(error.code == ErrorCode::StateDatabase && error.message.contains("full"), "{error}");
        assert_eq!(it.status().await.phase, Phase::Mounted, "a failure is no success");
        takes_all(&it).await;
    }
    takes_nothing(&it, "timings").await;
    it.run(post_run()).await.expect("it is unmounted, and that is noted");
    let status = it.status().await;
    assert_eq!((status.phase, has_mounts(&status)), (Phase::Unmounted, false));
    takes_all(&it).await;
    it.run(post_run()).await.unwrap();
    it.run(data_out()).await.unwrap();
}
