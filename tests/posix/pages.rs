//! Mappings, reads and writes of one file, direct and asynchronous ones too, at the same time.

use tests::pages::{
    COMPLETED_WRITES, MIXED_WAYS, Program, STORES_BESIDE_DIRECT_WRITES, STORES_BESIDE_WRITES, build,
};

use super::{COUNTED, Kind, PASSTHROUGH, PRIVATE, STRIPED, run};

fn runs_clean(kinds: &[Kind], programs: &[Program]) {
    let folder = tempfile::tempdir().expect("there is room for a program");
    for kind in kinds {
        let mounted = kind.mount();
        for program in programs {
            println!("{program:?} on {kind:?}");
            run(mounted.command(&build(program, folder.path()), "").arg("file").args(program.arguments));
        }
    }
}

#[test]
fn stores_through_a_mapping_and_writes_into_the_same_pages_lose_nothing() {
    runs_clean(&[PASSTHROUGH, COUNTED, STRIPED, PRIVATE], STORES_BESIDE_WRITES);
}

#[test]
fn direct_writes_into_pages_that_a_mapping_changes_lose_nothing_where_files_are_not_passed_through() {
    runs_clean(&[COUNTED, STRIPED, PRIVATE], STORES_BESIDE_DIRECT_WRITES);
}

#[test]
fn nobody_reads_what_was_there_before_an_asynchronous_direct_write_was_complete() {
    runs_clean(&[PASSTHROUGH, COUNTED, STRIPED, PRIVATE, Kind::Shared], COMPLETED_WRITES);
}

#[test]
fn what_was_written_in_one_way_is_read_at_once_in_every_other() {
    runs_clean(&[PASSTHROUGH, COUNTED, STRIPED, PRIVATE, Kind::Shared], MIXED_WAYS);
}
