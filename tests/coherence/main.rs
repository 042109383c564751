//! Namespaces on five compute nodes: what docs/SEMANTICS.md promises of several nodes, through real mounts.
//!
//! The nodes are network namespaces of this machine (`scripts/cluster`, without Slurm), each with a mount of its own;
//! three of them also store. All tests share two buffers, one with each coherence, and each has folders in them, and
//! what a test leaves there is removed before the buffers must be empty.
//!
//! `coherence [WORD]...` runs the tests with one of the words in their names.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]

mod appends;
mod commit;
mod folder;
mod kept;
mod locks;
mod lost;
mod mapped;
mod mpi;
mod names;
mod peer;
mod programs;
mod records;
mod site;
mod visible;

use tests::runner::Runner;

use site::Site;

/// A test on this cluster.
type Test = tests::runner::Test<Site>;

/// Tests that leave the nodes alone.
const TOGETHER: &[Test] = &[
    ("records_of_47008_bytes_from_four_nodes_are_whole_on_a_fifth", records::large),
    ("records_of_100_bytes_from_four_nodes_are_whole_on_a_fifth", records::small),
    ("what_a_write_returned_is_read_at_once_on_every_node", visible::bytes),
    ("size_and_times_are_the_same_on_every_node_at_once", visible::attributes),
    ("a_name_that_one_node_changed_is_changed_on_every_node", visible::names),
    ("a_truncated_file_ends_there_on_every_node", visible::truncation),
    ("a_hole_that_one_node_punched_reads_as_zeros_on_every_node", visible::holes),
    ("a_file_without_a_name_lives_while_another_node_has_it_open", visible::unlinked),
    ("a_time_that_was_set_stays_and_reading_changes_none", kept::times),
    ("extended_attributes_are_the_same_on_every_node", kept::xattrs),
    ("access_lists_are_obeyed_on_every_node", kept::access_lists),
    ("set_user_id_programs_and_device_nodes_have_no_power", kept::powerless),
    ("a_new_mapping_shows_what_other_nodes_wrote", mapped::new_mapping),
    ("a_mapping_shows_what_other_nodes_wrote_once_the_file_is_looked_at", mapped::old_mapping),
    ("what_was_stored_through_a_mapping_is_seen_on_every_node_after_msync", mapped::synced),
    ("a_mapping_and_writes_of_one_node_into_the_same_pages_lose_nothing", mapped::beside_writes),
    ("appends_from_four_nodes_are_whole_and_none_is_lost", appends::records),
    ("of_four_exclusive_creates_one_wins", names::exclusive),
    ("a_name_that_four_nodes_remove_is_removed_once", names::removals),
    ("a_name_that_four_nodes_move_is_in_one_place", names::moves),
    ("four_files_moved_to_one_name_leave_one", names::replacements),
    ("a_folder_that_another_node_removed_is_still_there_for_who_has_it_open", visible::removed_folder),
    ("a_folder_that_is_removed_and_filled_at_once_is_one_or_the_other", names::rmdir_and_create),
    ("two_folders_moved_into_each_other_make_no_ring", names::ring),
    ("after_a_storm_every_node_sees_the_same_tree", names::storm),
    ("range_locks_hold_across_nodes_and_end_with_their_process", locks::ranges),
    ("flock_holds_across_nodes_and_ends_with_its_process", locks::whole_files),
    ("records_that_are_held_back_are_whole_on_a_fifth_node", records::held_back),
    ("with_commit_coherence_fsync_and_close_make_writes_visible", commit::visible),
    ("with_commit_coherence_a_node_sees_its_own_writes_at_once", commit::own),
    ("with_commit_coherence_an_unlock_makes_writes_visible", locks::counter_held_back),
    ("a_counter_behind_a_lock_loses_no_step_of_four_nodes", locks::counter),
    ("a_lock_of_an_open_file_ends_with_its_last_close", locks::open_files),
    ("who_tries_a_file_lock_again_does_not_lose_it_to_the_close_before", locks::tried_again),
    ("a_signal_ends_the_wait_for_a_lock", locks::interrupted),
    ("sqlite_on_two_nodes_keeps_every_row", programs::sqlite),
    ("hdf5_with_locking_keeps_writers_of_two_nodes_apart", programs::hdf5),
    ("mpich_writes_atomically_and_through_data_sieving", mpi::mpich),
    ("open_mpi_writes_atomically_and_through_data_sieving", mpi::open_mpi),
];

/// Tests that end nodes, or take their cables out. The last ends one for good.
const ALONE: &[Test] = &[
    ("a_lock_outlives_the_mount_process_that_took_it", lost::mount_process),
    ("what_was_held_back_survives_the_mount_process", commit::killed),
    ("a_lock_is_kept_until_what_was_written_under_it_is_sent", locks::kept_until_sent),
    ("an_error_of_a_write_that_was_held_back_is_told_at_fsync_or_close", commit::error),
    ("a_storage_node_that_falls_silent_is_an_error_that_names_it", lost::silent_storage),
    ("what_a_node_locked_and_opened_ends_when_it_falls_silent", lost::silent_node),
    ("what_a_node_locked_and_opened_ends_when_it_dies", lost::dead_node),
];

fn main() {
    let runner = Runner::start(Site::up);
    runner.together(TOGETHER, 2);
    runner.one_by_one(ALONE);
    std::process::exit(runner.finish());
}
