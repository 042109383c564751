//! The words that the database has.

use super::*;
use crate::site::PoolKind;
use crate::state::fragments::State;

#[test]
fn words_of_the_database_are_what_they_always_were() {
    let of_pools = [PoolKind::Disk, PoolKind::Storage, PoolKind::NodeLocal, PoolKind::NodeLocalStriped];
    let words = ["disk", "storage", "node-local", "node-local-striped"];
    assert_eq!(of_pools.map(|kind| written(&kind)), words);
    let of_fragments =
        [State::New, State::There, State::Replacing, State::ReplacingNames, State::AcceptingNames];
    let words = ["new", "there", "replacing", "replacing-names", "accepting-names"];
    assert_eq!(of_fragments.map(|state| written(&state)), words);
}

fn written(value: &impl OnDisk) -> String {
    let ToSqlOutput::Owned(rusqlite::types::Value::Text(word)) = Word(value).to_sql().unwrap() else {
        panic!("it is no text")
    };
    word
}
