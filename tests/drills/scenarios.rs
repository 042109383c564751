//! The drills: a line for each says where, what works, and what happens.

use tests::site::Plan;

use crate::scenario::Fault::*;
use crate::scenario::Load::{Honest, Program, Strict};
use crate::scenario::Victim::*;
use crate::scenario::{Disks, Fault, Load, Scenario};

const fn plan(storage_nodes: usize, mounts: usize, volume: &'static str) -> Plan {
    Plan { storage_nodes, mounts, volume, grace_ms: 120_000, capacity: 512 << 20 }
}

const FOUR: Plan = plan(4, 3, "directory");
const TWO: Plan = plan(2, 2, "directory");
const ONE: Plan = plan(1, 2, "directory");
const IMAGE: Plan = plan(1, 1, "image");
const ALONE: Plan = plan(4, 1, "directory");

const ANY_KILL: &[Fault] =
    &[Kill(Storage), Kill(Storage), Kill(AllStorage), Kill(Mount), Kill(Mount), Kill(Supervisor)];
const SERVER_KILLS: &[Fault] = &[Kill(Storage), Kill(Home), Kill(Mount)];
const LINKS: &[Fault] = &[LinkCut, LinkCut, LinkHeld, LinkSlow];
const CALLS: &[Fault] = &[
    CallsFail("pwrite64", "EIO"),
    CallsFail("write", "EIO"),
    CallsFail("fsync,fdatasync", "EIO"),
    CallsFail("openat", "EIO"),
    CallsFail("ftruncate,fallocate", "EIO"),
    CallsFail("statx,newfstatat,fstat", "EIO"),
    CallsFail("pread64", "EIO"),
];

/// All of them: name, nodes and mounts, disks, load, faults, rounds of a short run, percent of a long one.
pub const ALL: &[Scenario] = &[
    drill(
        "no_call_fails_when_processes_of_four_nodes_are_killed",
        FOUR,
        Disks::Shared,
        Strict,
        ANY_KILL,
        12,
        400,
    ),
    drill(
        "no_call_fails_when_processes_of_one_node_are_killed",
        ONE,
        Disks::Shared,
        Strict,
        ANY_KILL,
        0,
        300,
    ),
    mirrored(drill(
        "no_call_fails_when_processes_of_four_mirrored_nodes_are_killed",
        FOUR,
        Disks::Shared,
        Strict,
        ANY_KILL,
        3,
        100,
    )),
    drill("no_call_fails_when_the_kernel_has_the_files", IMAGE, Disks::Shared, Strict, ANY_KILL, 0, 200),
    drill(
        "no_call_fails_when_the_namespace_is_a_mount_s_own",
        ALONE,
        Disks::Shared,
        Strict,
        ANY_KILL,
        0,
        200,
    ),
    drill(
        "no_call_fails_when_processes_freeze",
        FOUR,
        Disks::Shared,
        Strict,
        &[Freeze(Storage), Freeze(AllStorage), Freeze(Mount), Freeze(Supervisor)],
        0,
        20,
    ),
    drill("no_call_fails_when_storage_nodes_are_restarted", FOUR, Disks::Shared, Strict, &[Restart], 3, 20),
    drill("no_call_fails_when_links_are_cut_or_slow", TWO, Disks::Shared, Strict, LINKS, 3, 20),
    drill(
        "what_fsync_confirmed_survives_a_power_loss_of_one_of_four_nodes",
        FOUR,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne],
        3,
        100,
    ),
    drill(
        "what_fsync_confirmed_survives_a_power_loss_of_one_of_two_nodes",
        TWO,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne],
        3,
        60,
    ),
    drill(
        "what_fsync_confirmed_survives_a_power_loss_of_one_node_under_a_mount_alone",
        ALONE,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne],
        3,
        60,
    ),
    drill(
        "what_fsync_confirmed_survives_a_power_loss_of_the_only_node",
        ONE,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne],
        0,
        30,
    ),
    drill(
        "what_fsync_confirmed_survives_a_power_loss_of_a_node_whose_kernel_has_the_files",
        IMAGE,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne],
        0,
        30,
    ),
    mirrored(drill(
        "what_fsync_confirmed_survives_a_power_loss_of_one_of_two_mirrored_nodes",
        TWO,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne, PowerLossOfOne, Kill(Storage)],
        2,
        60,
    )),
    drill(
        "what_fsync_confirmed_survives_a_power_loss_of_all_nodes",
        FOUR,
        Disks::Xfs,
        Honest,
        &[PowerLossOfAll],
        0,
        10,
    ),
    drill(
        "power_losses_and_kills_together_lose_nothing_that_was_confirmed",
        FOUR,
        Disks::Xfs,
        Honest,
        &[PowerLossOfOne, Kill(Storage), Kill(Home), Kill(Mount)],
        0,
        40,
    ),
    drill(
        "a_disk_that_becomes_read_only_loses_nothing_that_was_confirmed",
        TWO,
        Disks::Ext4,
        Honest,
        &[ReadOnly],
        0,
        5,
    ),
    drill("a_full_disk_is_an_error_and_loses_nothing", TWO, Disks::Xfs, Honest, &[DiskFull], 0, 5),
    drill(
        "a_storage_node_whose_calls_fail_says_so_and_loses_nothing",
        TWO,
        Disks::Shared,
        Honest,
        CALLS,
        0,
        10,
    ),
    drill("a_wrong_bit_in_an_object_is_never_served", TWO, Disks::Shared, Honest, &[BitFlip], 6, 5),
    drill(
        "a_storage_node_without_descriptors_says_so_and_loses_nothing",
        TWO,
        Disks::Shared,
        Honest,
        &[NoDescriptors],
        1,
        5,
    ),
    drill(
        "a_storage_node_without_memory_says_so_and_loses_nothing",
        TWO,
        Disks::Shared,
        Honest,
        &[NoMemory],
        0,
        5,
    ),
    drill(
        "postgresql_keeps_its_balances_over_kills",
        FOUR,
        Disks::Shared,
        Program("postgresql"),
        SERVER_KILLS,
        0,
        10,
    ),
    drill(
        "rocksdb_keeps_its_checksums_over_kills",
        FOUR,
        Disks::Shared,
        Program("rocksdb"),
        SERVER_KILLS,
        0,
        10,
    ),
    drill(
        "sqlite_keeps_its_database_over_kills",
        FOUR,
        Disks::Shared,
        Program("sqlite"),
        SERVER_KILLS,
        3,
        10,
    ),
    drill("git_keeps_its_history_over_kills", FOUR, Disks::Shared, Program("git"), SERVER_KILLS, 3, 10),
];

const fn drill(
    name: &'static str,
    plan: Plan,
    disks: Disks,
    load: Load,
    faults: &'static [Fault],
    short: u64,
    share: u64,
) -> Scenario {
    Scenario { name, plan, mirrored: false, disks, load, faults, short, share }
}

const fn mirrored(drill: Scenario) -> Scenario {
    Scenario { mirrored: true, ..drill }
}
