//! Whole job scripts: what the parser understands of good ones and says of broken ones, word for word.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::directive::{self, AccessModeRequest, Directive, Script, Stage};
use model::sbatch;
use model::symbols::Symbols;

#[test]
fn good_scripts_are_understood() {
    compare("good", |text| summary(text).expect("a script in good/ has no errors"));
}

#[test]
fn broken_scripts_are_explained() {
    compare("broken", |text| {
        let errors = directive::parse(text, &symbols(text)).expect_err("a script in broken/ has errors");
        format!("{errors}\n")
    });
}

/// Compares every script of a folder with its expected text, and reports all differences at once.
fn compare(folder: &str, describe: impl Fn(&str) -> String) {
    let mut differences = String::new();
    let scripts = scripts(folder);
    assert!(scripts.len() >= 15, "only {} scripts in {folder}", scripts.len());
    for path in scripts {
        let found = describe(&read(&path));
        let expected = read(&path.with_extension("expected"));
        if found != expected {
            write!(differences, "{}:\n{found}--- expected:\n{expected}\n", path.display()).unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn scripts(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .collect();
    scripts.sort();
    scripts
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}\n", path.display()))
}

fn symbols(text: &str) -> Symbols {
    Symbols {
        job_id: "4242".into(),
        array_job_id: "4200".into(),
        array_task_id: "17".into(),
        workdir: "/pfs/ada/run".into(),
        user: "ada".into(),
        job_name: sbatch::parse(text).job_name.unwrap_or_else(|| "job".into()),
    }
}

fn summary(text: &str) -> Result<String, directive::ScriptErrors> {
    let script = directive::parse(text, &symbols(text))?;
    let sbatch = sbatch::parse(text);
    let mut summary = String::new();
    writeln!(
        summary,
        "sbatch: job_name {}, ntasks {}, chdir {}, ignored {}",
        sbatch.job_name.unwrap_or("-".into()),
        sbatch.ntasks.map_or("-".into(), |n| n.to_string()),
        sbatch.chdir.unwrap_or("-".into()),
        if sbatch.ignored.is_empty() { "-".into() } else { sbatch.ignored.join(" ") },
    )
    .unwrap();
    directives(&script, &mut summary);
    let hints = directive::hints(&script);
    if !hints.is_empty() {
        writeln!(summary, "hints: {}", hints.join(" ")).unwrap();
    }
    for error in directive::unsupported(&script) {
        writeln!(summary, "not built: {error}").unwrap();
    }
    Ok(summary)
}

fn directives(script: &Script, summary: &mut String) {
    for located in &script.directives {
        let text = match &located.directive {
            Directive::JobDw(job) => format!(
                "jobdw {:?} {} {:?} pool {} pfs {} options {:?}",
                job.kind,
                modes(&job.access_modes),
                job.capacity,
                job.pool.as_deref().unwrap_or("-"),
                job.pfs.as_deref().unwrap_or("-"),
                job.options,
            ),
            Directive::StageIn(stage) => format!("stage_in {}", copy(stage)),
            Directive::StageOut(stage) => format!("stage_out {}", copy(stage)),
            other => format!("{other:?}"),
        };
        writeln!(summary, "line {}: {text}", located.line).unwrap();
    }
}

fn modes(requests: &[AccessModeRequest]) -> String {
    requests
        .iter()
        .map(|request| format!("{:?}{:?}", request.mode, request.modifiers))
        .collect::<Vec<_>>()
        .join("+")
}

fn copy(stage: &Stage) -> String {
    let buffer = stage.buffer.as_ref().map_or("the list's places".to_owned(), ToString::to_string);
    format!("{:?}: PFS {}, buffer {buffer}", stage.kind, stage.pfs)
}
