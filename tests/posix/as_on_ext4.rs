//! What programs know from ext4 and would miss: `as_on_ext4.py` passes there, too.

use super::{COUNTED, PASSTHROUGH, STRIPED, everywhere};

fn script(part: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/posix/as_on_ext4.py");
    format!("mkdir in && cd in && python3 {script} {part}")
}

fn as_on_ext4(part: &str) {
    everywhere(&script(part));
}

#[test]
fn a_removed_folder_is_still_there_for_who_has_it_open() {
    as_on_ext4("removed");
}

#[test]
fn a_file_handle_finds_its_inode_as_long_as_that_lives() {
    as_on_ext4("handles");
}

#[test]
fn a_hole_takes_no_space_also_in_a_file_that_is_closed() {
    // Not where objects on XFS stay open: that keeps space ahead of who writes for some minutes, and says so.
    for kind in [PASSTHROUGH, COUNTED, STRIPED] {
        println!("on {kind:?}");
        kind.mount().bash(&script("sparse"));
    }
}

#[test]
fn set_user_id_that_a_write_cleared_is_seen_to_be_clear_at_once() {
    as_on_ext4("privileges");
}

#[test]
fn what_a_mapping_stored_beyond_the_end_of_a_file_is_not_in_it_when_it_grows() {
    as_on_ext4("grown");
}
