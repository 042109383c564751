//! The example: real data, a real program, every staged byte compared.

use std::fs;

use tests::cluster::Cluster;
use tests::star_catalogue::{assert_results, compare_staged_in, prepare};

#[track_caller]
fn the_example_gives_correct_results(nodes: &str) {
    let cluster = Cluster::new();
    let script = prepare(&cluster, &compare_staged_in());
    let outcome = cluster.run(&script, &["--nodes", nodes]).expect_success();

    let differences = fs::read_to_string(cluster.work.join("differences.txt")).expect("the job wrote it");
    assert_eq!(differences, "", "the staged-in catalogue differs from its source");
    assert_results(&cluster);
    assert!(
        outcome.stdout.contains("results/star-catalogue"),
        "the summary names the results:\n{}",
        outcome.stdout
    );
    cluster.assert_nothing_left();
}

#[test]
fn the_example_gives_correct_results_with_one_node() {
    the_example_gives_correct_results("1");
}

#[test]
fn the_example_gives_correct_results_with_four_nodes() {
    the_example_gives_correct_results("4");
}
