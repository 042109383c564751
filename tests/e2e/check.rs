//! `forebay check`, and `--check` of the services: everything that is wrong, at once, and nothing is made.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tests::cluster::{Cluster, Outcome, program_folder};

const JOBDW: &str = "#DW jobdw capacity=64MiB access_mode=striped type=scratch";

/// Every one of `words` is in a line of standard error of its own.
#[track_caller]
fn says_a_line_each(outcome: &Outcome, words: &[&str]) {
    for word in words {
        let found = outcome.stderr.lines().filter(|line| line.contains(word)).count();
        assert_eq!(found, 1, "{word:?} in\n{}", outcome.stderr);
    }
    let mistakes = outcome.stderr.lines().filter(|line| !line.contains("note: ")).count();
    assert_eq!(mistakes, words.len(), "{}", outcome.stderr);
}

#[test]
fn all_mistakes_of_a_script_are_said_at_once_and_nothing_is_made() {
    let cluster = Cluster::new();
    fs::write(cluster.work.join("list"), "/no/such/first $DW_JOB_STRIPED/1\n/etc/passwd\n").unwrap();
    fs::create_dir(cluster.work.join("folder")).unwrap();
    let script = cluster.script(
        "#!/bin/no-such-shell\n#SBATCH -c many --chdir=absent\n#SBATCH -o nowhere/out\n\
         #DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
         #DW stage_in type=file source=/no/such/source destination=$DW_JOB_STRIPED/a\n\
         #DW stage_in type=file source=%d/folder destination=$DW_JOB_STRIPED/b\n\
         #DW stage_in type=list source=%d/list\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=/etc/passwd/out\n\
         #DW stage_outt type=file\n#DW stage_in type=file source=relative destination=$DW_JOB_STRIPED/c\n",
    );
    let checked = cluster.forebay(&["check", &script]);
    assert_eq!(checked.code(), 65, "{}", checked.stderr);
    let words = [
        "-c: `many`",
        "absent of #SBATCH --chdir",
        "nowhere of #SBATCH --output",
        "line 1: /bin/no-such-shell",
        "line 5: source /no/such/source: No such file",
        "line 6: source ",
        "list: line 1: source /no/such/first",
        "list: line 2: column 1",
        "line 8: destination /etc/passwd/out: /etc/passwd is not a folder",
        "line 9, column 5",
        "line 10, column 31",
    ];
    says_a_line_each(&checked, &words);
    assert!(checked.stdout.contains("job.sh has 11 mistakes"), "{}", checked.stdout);
    assert!(!cluster.state.exists(), "a check makes no state folder");
}

#[test]
fn a_pipe_is_named_and_not_waited_for() {
    let cluster = Cluster::new();
    let pipe = cluster.work.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let stage = "#DW stage_in type=file source=%d/pipe destination=$DW_JOB_STRIPED/a";
    let checked = cluster.forebay(&["check", &cluster.script(&format!("#!/bin/sh\n{JOBDW}\n{stage}\n"))]);
    says_a_line_each(&checked, &["pipe is neither a file nor a directory"]);
}

#[test]
fn a_script_that_would_run_is_told_so_and_files_that_are_not_there_have_their_own_status() {
    let cluster = Cluster::new();
    let good =
        format!("#!/bin/sh\n{JOBDW}\n#DW stage_out type=any source=$DW_JOB_STRIPED/x destination=%d/new/x\n");
    let checked = cluster.forebay(&["check", &cluster.script(&good)]).expect_success();
    assert!(checked.stdout.contains("job.sh has no mistakes"), "{}", checked.stdout);
    assert!(checked.stderr.contains("no control service was asked"), "{}", checked.stderr);
    let missing = format!("{good}#DW stage_in type=any source=/no/such destination=$DW_JOB_STRIPED/y\n");
    let checked = cluster.forebay(&["check", &cluster.script(&missing), "--json"]);
    assert_eq!(checked.code(), 66, "{}", checked.stderr);
    let told = checked.json();
    assert_eq!((told["mistakes"].as_array().unwrap().len(), &told["asked"]), (1, &false.into()), "{told}");
    let none = cluster.forebay(&["check", "no-such.sh"]);
    assert_eq!(none.code(), 66, "{}", none.stderr);
    assert!(!cluster.state.exists());
}

#[test]
fn a_control_service_that_runs_is_asked_for_room() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    cluster.forebay(&["mount", path.to_str().unwrap(), "--capacity", "64MiB"]).expect_success();
    let check = |text: &str| cluster.forebay(&["check", &cluster.script(text)]);
    let good = check(&format!("#!/bin/sh\n{JOBDW}\n")).expect_success();
    assert!(!good.stderr.contains("no control service"), "{}", good.stderr);
    let large = check("#!/bin/sh\n#DW jobdw capacity=4PiB access_mode=striped type=scratch\n");
    assert_eq!(large.code(), 65, "{}", large.stderr);
    says_a_line_each(&large, &["4 PiB"]);
    // Nothing else that is wrong hides it.
    let several = check(
        "#!/bin/no-such-shell\n#SBATCH -c many\n#DW jobdw capacity=4PiB access_mode=striped type=scratch\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/a destination=/etc/passwd/a\n#DW stage_inn\n",
    );
    says_a_line_each(&several, &["no-such-shell", "`many`", "line 3: ", "/etc/passwd/a", "line 5, column"]);
    assert!(several.stderr.contains("4 PiB"), "{}", several.stderr);
    let none = check("#!/bin/sh\n#DW jobdw capacity=4Pig\n");
    assert!(none.stderr.contains("control was not asked: no line that asks for a buffer is right"));
    assert!(!none.stderr.contains("no control service"), "{}", none.stderr);
    cluster.forebay(&["umount", path.to_str().unwrap()]).expect_success();
}

#[test]
fn each_task_of_an_array_has_files_of_its_own() {
    let cluster = Cluster::new();
    for task in [1, 2, 4, 12] {
        fs::write(cluster.work.join(format!("in{task}")), "text").unwrap();
    }
    let script = |list: &str| {
        cluster.script(&format!(
            "#!/bin/sh\n#SBATCH -a {list}\n{JOBDW}\n\
             #DW stage_in type=file source=%d/in%a destination=$DW_JOB_STRIPED/a\n\
             #DW stage_in type=file source=%d/in%b destination=$DW_JOB_STRIPED/b\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/a destination=%d/out/%A/%a\n"
        ))
    };
    cluster.forebay(&["check", &script("1-2,12")]).expect_success();
    cluster.forebay(&["run", &script("1-2,12")]).expect_success();
    for task in ["1/1", "1/2", "1/12"] {
        assert_eq!(fs::read_to_string(cluster.work.join("out").join(task)).unwrap(), "text");
    }
    let missing = cluster.forebay(&["check", &script("2-4")]);
    assert_eq!(missing.code(), 66, "{}", missing.stderr);
    says_a_line_each(&missing, &["line 4: task 3: source", "line 5: task 3: source"]);
    let many = cluster.forebay(&["check", &script("1-500")]);
    assert_eq!(many.code(), 66, "{}", many.stderr);
    assert!(
        many.stderr.contains("the files of the first 100 of 500 tasks were looked at"),
        "{}",
        many.stderr
    );
    let shared = format!(
        "#!/bin/sh\n#SBATCH -a 1-500\n{JOBDW}\n#DW stage_in type=file source=/no/such destination=$DW_JOB_STRIPED/a\n"
    );
    let once = cluster.forebay(&["check", &cluster.script(&shared)]);
    says_a_line_each(&once, &["line 4: source /no/such"]);
}

#[test]
fn a_heterogeneous_job_is_for_sbatch_and_its_parts_are_looked_at_one_by_one() {
    let cluster = Cluster::new();
    let stage = |source| format!("#DW stage_in type=file source={source} destination=$DW_JOB_STRIPED/a");
    let script = cluster.script(&format!(
        "#!/bin/sh\n{JOBDW}\n{}\n#SBATCH hetjob\n{JOBDW}\n{}\n",
        stage("/etc/passwd"),
        stage("/no/such")
    ));
    let checked = cluster.forebay(&["check", &script]);
    assert_eq!(checked.code(), 65, "{}", checked.stderr);
    says_a_line_each(&checked, &["a heterogeneous job needs Slurm", "line 6: source /no/such"]);
    let run = cluster.forebay(&["run", &script]);
    assert_eq!(run.code(), 65, "{}", run.stderr);
    assert!(run.stderr.contains("submit it with sbatch") && !cluster.state.exists(), "{}", run.stderr);
}

fn service(cluster: &Cluster, program: &str, file: &Path) -> Outcome {
    let mut command = Command::new(program_folder().join(program));
    command.arg("--check").arg("--config").arg(file);
    cluster.spawn(command).wait()
}

#[test]
fn the_check_of_a_configuration_says_all_that_a_start_would_refuse() {
    let cluster = Cluster::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, state) = (taken.local_addr().unwrap(), cluster.folder().join("new"));
    let (control, node) = (cluster.folder().join("control.toml"), cluster.folder().join("node.toml"));
    let common = format!("state_dir = \"{}\"\nmetrics = \"{address}\"\n", state.display());
    fs::write(
        &control,
        format!(
            "{common}admin_users = [\"no-such-a\", \"no-such-b\"]\nwlm_users = [\"no-such-c\"]\n\
             audit_log = \"/no/such/log\"\n[[pools]]\nname = \"a\"\ngranularity = \"0\"\n"
        ),
    )
    .unwrap();
    let refused = service(&cluster, "forebay-control", &control);
    assert_eq!(refused.code(), 1, "{}", refused.stderr);
    let metrics = format!("metrics: listen at {address}: ");
    says_a_line_each(&refused, &["no-such-a", "no-such-b", "audit_log: /no/such", "pools: a: ", &metrics]);
    assert!(refused.stderr.contains("note: wlm_users: there is no user no-such-c"), "{}", refused.stderr);

    fs::write(&node, format!("{common}stage_bandwidth = \"many\"\ncontrol_user = \"no-such-d\"\n")).unwrap();
    let refused = service(&cluster, "forebay-node", &node);
    assert_eq!(refused.code(), 1, "{}", refused.stderr);
    says_a_line_each(&refused, &["capacity: the storage role", "stage_bandwidth: ", "no-such-d", &metrics]);

    drop(taken);
    fs::write(&control, format!("state_dir = \"{}\"\n", state.display())).unwrap();
    let good = service(&cluster, "forebay-control", &control).expect_success();
    assert!(good.stdout.contains("finds nothing in its way"), "{}", good.stdout);
    fs::write(&node, format!("state_dir = \"{}\"\ncapacity = \"1GiB\"\n", state.display())).unwrap();
    service(&cluster, "forebay-node", &node).expect_success();
    fs::write(&node, "capcity = \"1GiB\"\n").unwrap();
    let mistyped = service(&cluster, "forebay-node", &node);
    assert!(mistyped.code() == 1 && mistyped.stderr.contains("capcity"), "{}", mistyped.stderr);
    assert!(!state.exists(), "a check makes no state folder");
}

#[test]
fn a_configuration_is_said_to_be_wrong_a_line_each() {
    let cluster = Cluster::new();
    let (control, node) = (cluster.folder().join("control.toml"), cluster.folder().join("node.toml"));
    // Root may make files there, and the kernel makes none.
    let lost = "state_dir = \"/proc/zz\"\n";
    let pool = "[[pools]]\nname = \"w p\"\ngranularity = \"1GiB\"\n";
    fs::write(&control, format!("bogus = 1\n{lost}{pool}kind = \"no-kind\"\n")).unwrap();
    let refused = service(&cluster, "forebay-control", &control);
    assert_eq!(refused.code(), 1, "{}", refused.stderr);
    let words = ["line 1, column 1: unknown field `bogus`", "line 6, column 8: ", "state_dir: ", "w p"];
    says_a_line_each(&refused, &words);
    let text = format!("{lost}capcity = \"1GiB\"\ncapacity = \"1GiB\"\nname = \"a b\"\n");
    fs::write(&node, text).unwrap();
    let refused = service(&cluster, "forebay-node", &node);
    assert_eq!(refused.code(), 1, "{}", refused.stderr);
    says_a_line_each(&refused, &["line 2, column 1: unknown field `capcity`", "state_dir: "]);
    assert!(refused.stderr.contains("note: name: `a b` is no name of a node"), "{}", refused.stderr);
    for program in ["forebay-control", "forebay-node"] {
        let mut command = Command::new(program_folder().join(program));
        command.arg("--check");
        let refused = cluster.spawn(command).wait();
        assert_eq!((refused.code(), refused.stderr.lines().count()), (64, 1), "{}", refused.stderr);
        assert!(refused.stderr.starts_with(&format!("{program}: ")), "{}", refused.stderr);
        assert!(refused.stderr.contains("--config"), "{}", refused.stderr);
    }
}
