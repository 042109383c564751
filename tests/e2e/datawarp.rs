//! libdatawarp in a job of `forebay run`: a C program for each function.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tests::cluster::Cluster;
use tests::datawarp;

/// The programs, compiled once for all tests.
struct Programs {
    folder: PathBuf,
    names: Vec<String>,
    prefix: PathBuf,
}

fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        // Kept until the end of the test process, and with it removed by nobody: so it is in the build's own folder.
        let base = tests::cluster::program_folder().join("datawarp-tests");
        let (prefix, folder) = (base.join("prefix"), base.join("programs"));
        fs::create_dir_all(&folder).unwrap();
        Programs { names: datawarp::build(&prefix, &folder), folder, prefix }
    })
}

/// These need the sources and a compiler, which the ordinary user's copy of the tests does not have; ordinary users are
/// in the tests with Slurm.
mod root_only {
    use super::*;

    #[test]
    fn each_function_of_libdatawarp_does_what_programs_expect_in_a_job_of_forebay_run() {
        let (cluster, programs) = (Cluster::new(), programs());
        assert_eq!(programs.names.len(), 24);
        let pfs = cluster.folder().join("pfs");
        let lines = datawarp::script(&programs.names, &programs.folder, "$DW_JOB_STRIPED", &pfs);
        let script =
            format!("#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n{lines}");
        let outcome = cluster.run(&script, &["--nodes", "2"]).expect_success();
        assert!(!outcome.stdout.contains(" failed\n"), "{}\n{}", outcome.stdout, outcome.stderr);
        let last = fs::read_to_string(pfs.join("dw_stage_file_out/last"));
        assert_eq!(last.unwrap(), "after the job", "what was to be staged out at the job's end");
        cluster.assert_nothing_left();
    }

    #[test]
    fn ranks_stage_at_once() {
        let (cluster, programs) = (Cluster::new(), programs());
        let pfs = cluster.pfs("pfs");
        let script = format!(
            "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
             srun -n 8 bash -c '{}/dw_stage_list_out $DW_JOB_STRIPED/$SLURM_PROCID {}/$SLURM_PROCID'\n",
            programs.folder.display(),
            pfs.display()
        );
        cluster.run(&script, &[]).expect_success();
        for rank in 0..8 {
            assert_eq!(fs::read_to_string(pfs.join(format!("{rank}/b"))).unwrap(), "b");
        }
    }

    #[test]
    fn old_binaries_find_the_library_by_its_name_and_its_symbols_have_no_versions() {
        let library = datawarp::library(&programs().prefix);
        let dynamic = Command::new("readelf").arg("-dW").arg("--dyn-syms").arg(library).output().unwrap();
        let text = String::from_utf8(dynamic.stdout).unwrap();
        assert!(text.contains("Library soname: [libdatawarp.so.0]"), "{text}");
        for name in &programs().names {
            let exported = |line: &str| line.contains(" FUNC ") && line.ends_with(&format!(" {name}"));
            assert!(text.lines().any(exported), "{name}: {text}");
        }
    }
}
