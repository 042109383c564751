//! What users of a cluster try against each other, by the means that a review had: docs/run/security.md says what is
//! promised. Two ordinary users, a control and real nodes; each test shows the harm on the code before its mend.
//!
//! `attacks [WORD]...` runs the tests with one of the words in their names.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]

mod crowds;
mod encrypted;
mod fairness;
mod impostors;
mod metadata;
mod nodes;
mod pool;
mod rotated;
mod shared_buffers;
mod squashed;
mod swapped;

use tests::runner::Runner;
use tests::sharing::Site;

/// A test on this cluster.
type Test = tests::runner::Test<Site>;

/// Together: they leave the services alone.
const TOGETHER: &[Test] = &[
    ("what_others_may_not_read_in_a_shared_buffer_is_not_staged_out", shared_buffers::staged_out),
    ("what_others_own_in_a_shared_buffer_is_not_replaced_by_a_stage_in", shared_buffers::staged_in),
    ("a_stage_on_demand_has_the_rights_of_who_asked_for_it", shared_buffers::on_demand),
    ("groups_and_access_lists_let_stages_in", shared_buffers::let_in),
    ("a_link_in_the_place_of_a_folder_leads_no_stage_out_elsewhere", swapped::staged_out),
    ("a_link_in_the_place_of_a_folder_leads_no_stage_in_elsewhere", swapped::staged_in),
    ("what_is_outside_of_the_folders_for_stages_is_not_staged", swapped::outside),
    ("the_key_of_a_buffer_is_not_on_nodes_that_only_mount_it", shared_buffers::keys),
    ("only_an_operator_changes_the_key_of_a_buffer", rotated::by_others),
    ("only_its_owner_sets_how_many_stages_run_at_once_in_a_shared_buffer", fairness::concurrency),
    ("what_a_user_does_with_a_shared_buffer_is_not_shown_to_others", fairness::looks),
    ("who_asks_for_the_name_of_a_node_that_lives_is_refused_by_name", nodes::names),
    ("what_a_node_keeps_is_open_to_nobody_else", nodes::modes),
];

/// One by one: they kill, or take all of a service.
const ALONE: &[Test] = &[
    ("root_of_a_compute_node_has_the_rights_of_nobody_in_a_pool_that_squashes_it", squashed::root),
    ("crowds_keep_nobody_from_control", crowds::control),
    ("twenty_thousand_stages_of_one_user_hold_up_nobody_else_s", fairness::stages),
    ("a_list_of_twenty_thousand_stages_comes_in_parts_and_they_are_cancelled_at_once", fairness::lists),
    ("strangers_keep_nobody_from_the_data_of_a_node", crowds::data_port),
    ("names_and_attributes_fill_no_more_than_their_share_and_can_be_removed", metadata::filled),
    ("a_job_works_on_while_the_key_is_changed_and_the_former_one_opens_nothing", rotated::key),
    ("who_is_killed_in_any_step_of_a_change_of_the_key_locks_nobody_out", rotated::between::kills),
    (
        "the_key_of_a_buffer_that_is_staged_or_removed_is_changed_or_is_said_not_to_be",
        rotated::between::others,
    ),
    ("a_node_s_folder_from_before_a_change_of_the_key_lets_nobody_in", rotated::put_back::seen),
    (
        "a_node_s_folder_from_before_a_change_of_the_key_lets_nobody_in_without_control",
        rotated::put_back::unseen,
    ),
    ("jobs_work_on_while_the_key_of_munge_is_changed_and_services_are_not_restarted", rotated::munge::key),
    ("who_reads_the_wire_sees_nothing_of_a_buffer_whose_pool_encrypts", encrypted::wire),
    ("who_takes_the_port_of_a_storage_node_is_not_believed", impostors::data_port),
    ("who_takes_the_port_of_a_node_s_api_is_not_believed", impostors::api_port),
];

fn main() {
    let runner = Runner::start(Site::up);
    runner.together(TOGETHER, 3);
    runner.one_by_one(ALONE);
    std::process::exit(runner.finish());
}
