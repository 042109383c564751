//! Stock Slurm drives Forebay: real jobs of ordinary users on a cluster of namespaces on this machine
//! (`scripts/cluster`).
//!
//! All tests share one cluster, which is started first and removed at the end, so this is a program of its own: first
//! the tests that get along with each other, some at a time, then one by one those that kill and cancel. After each of
//! those, and after the first lot, nothing may be allocated or mounted.
//!
//! `slurm [WORD]...` runs the tests with one of the words in their names.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]

mod allocation;
mod cancel;
mod check;
mod crowd;
mod daemons;
mod datawarp;
mod job;
mod killed_stages;
mod local;
mod lost_nodes;
mod node_local;
mod pages;
mod persistent;
mod refusals;
mod rights;
mod scripts;
mod shared_home;
mod site;
mod slurmctld;
mod staging;
mod storm;
mod summit;
mod tools;
mod unmade;
mod ways;

use tests::runner::Runner;

use site::Site;

/// A test on this cluster.
type Test = tests::runner::Test<Site>;

/// Tests that leave the services alone.
const TOGETHER: &[Test] = &[
    // First: Slurm takes up to half a minute to notice that a job's time is over.
    ("a_job_killed_by_its_time_limit_in_mid_drain_is_warned_and_loses_nothing", local::time_limit),
    ("a_seed_script_is_staged_in_and_out_byte_by_byte", scripts::files_directories_and_lists),
    ("a_striped_namespace_is_one_on_all_nodes", scripts::striped_on_all_nodes),
    ("a_private_namespace_is_each_nodes_own", scripts::private_on_each_node),
    ("hints_and_remarks_of_public_scripts_change_nothing", scripts::hints_and_remarks),
    ("symbols_are_replaced_and_array_tasks_have_buffers_of_their_own", scripts::arrays_and_symbols),
    ("tasks_of_an_array_without_symbols_have_buffers_of_their_own", scripts::array_without_symbols),
    ("options_of_sbatch_and_srun_do_what_they_do_under_forebay_run", scripts::options),
    ("a_job_that_fails_is_staged_out_all_the_same", scripts::failing_job),
    ("a_job_that_was_cut_short_does_not_hold_its_buffer_for_what_it_never_made", unmade::cut_short),
    ("a_job_that_succeeded_without_what_is_to_be_staged_out_is_kept_and_told_so", unmade::succeeded),
    ("srun_and_salloc_have_buffers_and_variables", scripts::interactive),
    ("a_buffer_is_asked_for_by_options_of_sbatch_salloc_and_srun", ways::options),
    ("each_component_of_a_heterogeneous_job_has_its_own_buffer", ways::heterogeneous),
    ("an_mpi_program_runs_on_two_nodes_from_the_buffer", ways::mpi),
    ("a_missing_source_is_told_to_the_user", scripts::source_that_vanishes),
    ("a_persistent_buffer_is_its_owners_alone", persistent::owners_alone),
    ("a_persistent_buffer_may_have_a_dot_in_its_name", persistent::name_with_a_dot),
    ("a_persistent_buffer_is_filled_without_a_job", persistent::filled_without_a_job),
    ("a_persistent_buffer_is_removed_once_and_slurm_is_named", persistent::removed_without_a_job),
    ("a_persistent_buffer_is_mounted_on_a_node_without_a_job", persistent::mounted_without_a_job),
    (
        "a_persistent_buffer_of_one_user_is_mounted_by_nobody_else_without_a_job",
        persistent::mounted_by_nobody_else,
    ),
    ("persistent_buffers_are_made_and_removed_by_salloc_and_srun", persistent::without_a_script),
    ("a_shared_persistent_buffer_is_used_by_two_users_at_once", persistent::shared_by_two_users),
    ("what_a_user_cannot_read_is_not_staged_in", rights::unreadable_source),
    ("a_user_reaches_no_buffer_of_another", rights::other_instances),
    ("a_user_stages_with_libdatawarp", datawarp::functions),
    ("every_storage_node_of_a_buffer_copies_for_its_stages", staging::on_every_storage_node),
    ("a_dw_line_gives_each_node_a_private_volume_that_is_drained", local::directive),
    ("a_striped_buffer_lies_on_the_jobs_own_nodes", local::striped),
    ("a_buffer_over_the_nodes_of_a_job_needs_no_administrator", allocation::on_each_node),
    (
        "what_a_buffer_over_the_nodes_of_a_job_could_not_stage_out_is_said_to_be_lost",
        allocation::lost_results,
    ),
    ("a_check_takes_and_refuses_what_sbatch_does", check::as_sbatch),
    ("a_check_says_what_would_only_be_seen_in_the_queue", check::in_the_queue),
    ("a_check_of_a_node_says_what_control_does_not_take", check::of_a_node),
    ("malformed_submissions_are_refused_with_their_reasons", refusals::all),
];

/// Tests that need the cluster for themselves.
const ALONE: &[Test] = &[
    ("a_buffer_over_the_nodes_of_a_job_leaves_nothing_however_it_ends", allocation::ended_in_any_way),
    ("what_is_named_wrongly_is_said_before_a_buffer_is_over_the_nodes_of_a_job", allocation::misused),
    ("a_node_of_an_allocation_that_is_killed_is_started_again", allocation::killed_node),
    ("a_node_of_an_allocation_that_cannot_begin_is_named", allocation::node_without_room),
    (
        "a_node_of_an_allocation_that_cannot_mount_is_named_with_what_helps",
        allocation::node_that_cannot_mount,
    ),
    ("array_tasks_with_one_folder_on_several_nodes_lose_nothing", shared_home::one_folder),
    ("strangers_reach_no_buffer_over_the_nodes_of_a_job", allocation::strangers),
    ("dwstat_and_dwcli_show_what_is_there", tools::pipelines),
    ("the_examples_of_the_cluster_run", scripts::examples),
    ("olcfs_scripts_run_unchanged_on_node_local_flash", local::tutorial),
    ("the_scripts_of_the_page_on_node_local_flash_run_as_they_stand", node_local::page),
    ("a_metadata_benchmark_runs_in_the_folder_that_jsrun_is_told", summit::metadata),
    ("a_file_of_all_ranks_is_copied_from_the_flash_by_summits_script", summit::btio),
    ("a_users_storm_of_jobs_with_flash_drains_no_node", storm::of_one_user),
    ("a_job_cancelled_before_its_drain_loses_nothing", local::cancelled),
    ("what_the_pages_for_operators_show_happens", pages::of_operators),
    ("every_daemon_has_metrics_that_prometheus_reads", tools::metrics),
    ("scancel_of_a_running_job_stages_out_and_hurry_does_not", cancel::running),
    ("scancel_of_a_waiting_job_leaves_nothing", cancel::waiting_for_room),
    ("a_requeued_job_stages_out_and_begins_again", cancel::requeued),
    ("scancel_ends_every_phase_before_the_job", cancel::before_the_job),
    ("scancel_hurry_ends_a_stage_out", cancel::stage_out),
    ("a_stage_out_that_fails_keeps_its_data", cancel::failed_stage_out),
    ("what_teardown_may_not_destroy_is_set_aside", cancel::quarantined),
    ("slurmctld_may_be_restarted_in_every_phase", slurmctld::terminated),
    ("slurmctld_may_be_killed_in_every_phase", slurmctld::killed),
    ("slurmctld_starts_while_control_is_down", slurmctld::without_control),
    ("each_daemon_may_be_killed_in_every_phase", daemons::killed),
    ("a_stage_whose_processes_are_killed_copies_nothing_again_that_was_done", killed_stages::small_files),
    ("pools_are_known_while_control_is_down", daemons::control_is_down),
    ("a_job_that_cannot_be_told_its_paths_is_held", daemons::paths_without_control),
    ("a_hundred_jobs_pass_through_a_small_pool", crowd::hundred_jobs),
    ("a_node_that_never_answers_is_named_in_bounded_time", lost_nodes::silent_at_pre_run),
    ("a_node_that_dies_takes_no_other_job_with_it", lost_nodes::dies_during_the_job),
    ("a_storage_node_that_dies_in_a_stage_out_is_named", lost_nodes::dies_during_the_stage_out),
];

fn main() {
    let runner = Runner::start(Site::up);
    runner.together(TOGETHER, 4);
    runner.one_by_one(ALONE);
    std::process::exit(runner.finish());
}
