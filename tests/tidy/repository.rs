//! The rules, kept by this repository.

use std::path::Path;

use serde_json::{Value, json};

use crate::listed::{self, Counts};
use crate::tree::{Source, ask, read, root, sources};
use crate::{
    additions, arrows, blocks, circles, columns, commits, heads, lengths, licences, links, manifests,
    materials, sent,
};

/// The commits after this one keep the rule for subjects.
const FIRST: &str = "ccaab54845846096b1ebf963360b3b2add70766d";

/// Where what broke a rule before is listed.
const LIST: &str = "tests/tidy/listed.txt";

/// Set to write what was mended into the list.
const LOWER: &str = "TIDY_LOWER";

fn metadata(arguments: &[&str]) -> Value {
    let fixed = ["metadata", "--offline", "--locked", "--format-version", "1"];
    let said = ask(env!("CARGO"), &[&fixed, arguments].concat()).expect("cargo knows the workspace");
    serde_json::from_str(&said).expect("cargo speaks JSON")
}

fn code() -> Vec<Source> {
    sources(&["crates", "tests", "bench", "fuzz"], ".rs")
}

fn prose() -> Vec<Source> {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    sources(&[&["crates", "docs", "bench", "examples"], &pages[..]].concat(), ".md")
}

fn count(code: &[Source], prose: &[Source]) -> Counts {
    let mut found = Counts::new();
    for Source { path, text } in code {
        found.insert(("file", path.clone()), lengths::file(text));
        found.insert(("columns", path.clone()), columns::of_source(text));
        found.insert(("head", path.clone()), heads::lacking(text));
        if !["crates/wire/", "crates/kept/"].iter().any(|own| path.starts_with(own)) {
            found.insert(("sent", path.clone()), sent::fields(text));
        }
        for (name, length) in lengths::functions(text) {
            let longest = found.entry(("function", format!("{path} {name}"))).or_default();
            *longest = length.max(*longest);
        }
    }
    for Source { path, text } in prose {
        found.insert(("columns", path.clone()), columns::of_prose(text));
    }
    for (name, files) in crates(code) {
        for circle in circles::find(&files) {
            found.insert(("circle", format!("{name} {}", circle.join(" "))), circle.len());
        }
    }
    listed::breaches(found)
}

/// The sources of each crate, by their paths below its `src`.
fn crates(code: &[Source]) -> Vec<(String, Vec<Source>)> {
    let mut crates: Vec<(String, Vec<Source>)> = Vec::new();
    for file in code {
        let Some((name, path)) = file.path.split_once("/src/") else { continue };
        if path.starts_with("bin/") || (path == "main.rs" && name != "crates/cli" && name != "bench") {
            continue;
        }
        if crates.last().is_none_or(|(last, _)| last != name) {
            crates.push((name.to_owned(), Vec::new()));
        }
        let (_, files) = crates.last_mut().expect("it was put there");
        files.push(Source { path: path.to_owned(), text: file.text.clone() });
    }
    crates
}

/// What is wrong with these pages, by rules that nothing ever broke.
fn wrong(prose: &[Source]) -> Vec<String> {
    let (run, hooks, navigation) = (read("tests/page.rs"), read("scripts/site/hooks.py"), read("mkdocs.yml"));
    let there = |path: &Path| match prose.iter().find(|page| Path::new(&page.path) == path) {
        Some(page) => Some(page.text.clone()),
        None => std::fs::read(root().join(path)).ok().map(|text| String::from_utf8_lossy(&text).into_owned()),
    };
    let (languages, scripts) = (blocks::languages(&hooks), sources(&["tests/slurm"], ".rs"));
    let mut wrong: Vec<String> = Vec::new();
    for Source { path, text } in prose {
        wrong.extend(links::dead(path, text, there).into_iter().map(|why| format!("dead link: {why}")));
        let is_page = path.starts_with("docs/") || path == "README.md";
        if is_page && links::has_commands(text) && !run.contains(&format!("page!({path:?})")) {
            wrong.push(format!("not run: tests/page.rs does not name {path}"));
        }
        if text.contains("```bash") && !scripts.iter().any(|test| test.text.contains(&format!("/{path}\""))) {
            wrong.push(format!("not run: no test in tests/slurm has the scripts of {path}"));
        }
        wrong.extend(blocks::wrong(path, text, &languages).into_iter().map(|why| format!("block: {why}")));
    }
    let unlisted = blocks::unlisted(&navigation, prose.iter().map(|page| page.path.as_str()));
    wrong.extend(unlisted.into_iter().map(|path| format!("no place: mkdocs.yml does not name {path}")));
    wrong
}

fn manifests() -> Vec<Source> {
    sources(&["crates", "tests", "bench"], "/Cargo.toml")
}

#[test]
fn links_lead_somewhere_commands_are_run_blocks_have_a_language_and_pages_a_place() {
    assert_eq!(wrong(&prose()), [""; 0]);
}

#[test]
fn crates_have_their_versions_from_the_workspace() {
    assert!(manifests().len() > 20);
    assert_eq!(manifests::wrong(&manifests()), [""; 0]);
}

#[test]
fn what_is_too_long_too_wide_in_a_circle_or_kept_as_it_is_sent_is_an_old_breach_and_grows_no_more() {
    let text = read(LIST);
    let listed = listed::parse(&text).unwrap();
    let found = count(&code(), &prose());
    let worse = listed::worse(&listed, &found);
    assert!(worse.is_empty(), "{LIST} does not have:\n{}", worse.join("\n"));
    let Some(lower) = listed::lowered(&listed, &found) else { return };
    if std::env::var_os(LOWER).is_none() {
        panic!("well done: write what was mended into {LIST} with `{LOWER}=1 cargo test --release -p tidy`");
    }
    let why: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    std::fs::write(root().join(LIST), why + &listed::show(&lower)).unwrap();
}

#[test]
fn crates_use_each_other_as_architecture_md_says() {
    let real = arrows::of_metadata(&metadata(&["--no-deps"]));
    let wrong = arrows::differences(&read("ARCHITECTURE.md"), &real);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_added_takes_at_most_four_files_that_are_there() {
    let is_there = |path: &str| {
        let (name, below) = path.split_once('/').expect("a crate, and what is below it");
        root().join("crates").join(name).join("src").join(below).is_file()
    };
    let wrong = additions::wrong(&read("ARCHITECTURE.md"), is_there);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_that_is_linked_has_a_licence_that_deny_toml_allows() {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let allowed = licences::allowed(&read("deny.toml"));
    let refused = licences::refused(&metadata(&["--filter-platform", &target]), &allowed);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn the_bill_of_materials_lists_what_is_linked_with_licences_and_checksums_and_nothing_else() {
    let tree =
        ["tree", "--offline", "--locked", "--workspace", "-e", "normal", "--prefix", "none", "-f", "{p}"];
    let others = ["--exclude", "tests", "--exclude", "tidy", "--exclude", "bench"];
    let linked = ask(env!("CARGO"), &[&tree[..], &others].concat()).expect("cargo knows the workspace");
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut linked: Vec<String> = linked.lines().filter(|line| !line.is_empty()).map(words).collect();
    linked.sort();
    linked.dedup();
    let bill = ask("scripts/sbom", &[]).expect("it makes one");
    assert_eq!(ask("scripts/sbom", &[]).as_ref(), Ok(&bill), "the same tree gives the same text");
    let mut bill: Value = serde_json::from_str(&bill).expect("it is JSON");
    let wrong = materials::wrong(&bill, &read("Cargo.lock"), &linked);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let first = bill["components"].as_array_mut().unwrap().iter_mut().find(|one| !one["hashes"].is_null());
    first.unwrap()["hashes"][0]["content"] = json!("0");
    bill["components"].as_array_mut().unwrap().push(json!({"name": "evil", "version": "1.0.0"}));
    assert_eq!(materials::wrong(&bill, &read("Cargo.lock"), &linked).len(), 3);
}

#[test]
fn subjects_of_commits_have_their_form() {
    // Another user's clone is read as well, and an archive has no history.
    let git = |arguments: &[&str]| ask("git", &[&["-c", "safe.directory=*"], arguments].concat());
    if git(&["cat-file", "-e", FIRST]).is_err() {
        return;
    }
    let subjects = git(&["log", "--no-merges", "--format=%s", &format!("{FIRST}..HEAD")]).unwrap();
    let areas = areas();
    let wrong: Vec<String> =
        subjects.lines().filter_map(|subject| commits::check(subject, &areas).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn areas() -> Vec<String> {
    let mut areas = vec!["workspace".to_owned()];
    for place in [".", "crates"] {
        let entries = std::fs::read_dir(root().join(place)).unwrap();
        areas.extend(entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
    }
    areas
}

/// How a planted source begins.
const HEAD: &str = "//! What it is for.\n";

/// What is kept as it is sent.
const SENT: &str = "use wire::control::Owner;\n#[derive(Deserialize)]\nstruct Kept(Owner);\n";

/// Files, each of which breaks a rule, and its name.
fn planted() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let long = "fn f() {\n    g();\n".to_owned() + &"    g();\n".repeat(38) + "}\n";
    let wide = "x".repeat(121);
    vec![
        ("file", vec![("crates/store/src/planted.rs", HEAD.to_owned() + &"\n".repeat(300))]),
        ("function", vec![("tests/e2e/planted.rs", HEAD.to_owned() + &long)]),
        ("columns", vec![("bench/src/planted.rs", format!("{HEAD}// {wide}\n"))]),
        ("columns", vec![("docs/run/planted.md", wide.clone())]),
        ("columns", vec![("docs/run/planted.md", format!("| {} |\n", "x".repeat(400)))]),
        ("head", vec![("fuzz/targets/planted.rs", "#![no_main]\n".to_owned())]),
        ("columns", vec![("docs/run/planted.md", format!("- A list,\n\n    {wide}\n"))]),
        ("head", vec![("crates/model/src/planted.rs", "use std::fmt;\n".to_owned())]),
        ("sent", vec![("crates/node/src/planted.rs", format!("{HEAD}{SENT}"))]),
        (
            "circle",
            vec![
                ("crates/stage/src/planted.rs", format!("{HEAD}use crate::engine::Engine;\n")),
                ("crates/stage/src/engine.rs", format!("{HEAD}use crate::planted;\n")),
            ],
        ),
        (
            "circle",
            vec![
                ("crates/wlm/src/planted.rs", format!("{HEAD}mod a;\nmod b;\nuse self::a::f;\nuse b::g;\n")),
                ("crates/wlm/src/planted/a.rs", format!("{HEAD}use super::b;\nfn f() {{ b::g() }}\n")),
                ("crates/wlm/src/planted/b.rs", format!("{HEAD}fn g() {{ super::a::f() }}\n")),
            ],
        ),
    ]
}

#[test]
fn a_violation_of_any_rule_that_is_planted_in_this_repository_fails() {
    let listed = listed::parse(&read(LIST)).unwrap();
    for (rule, files) in planted() {
        let (mut code, mut prose) = (code(), prose());
        for (path, text) in files {
            let all = if path.ends_with(".rs") { &mut code } else { &mut prose };
            all.retain(|file| file.path != path);
            all.push(Source { path: path.to_owned(), text });
            all.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let worse = listed::worse(&listed, &count(&code, &prose));
        assert!(matches!(&worse[..], [one] if one.starts_with(rule)), "{rule}: {worse:?}");
    }
}

#[test]
fn a_page_and_a_manifest_that_are_planted_in_this_repository_fail() {
    let planted = [
        ("dead link: docs/glossary.md", "docs/glossary.md", "[a](b.md)\n"),
        ("dead link: docs/glossary.md", "docs/glossary.md", "[a](../README.md#nowhere)\n"),
        ("not run: tests/page.rs", "docs/glossary.md", "```sh\ntrue\n```\n"),
        ("block: docs/glossary.md:1", "docs/glossary.md", "```shell\ntrue\n```\n"),
        ("not run: no test in tests/slurm", "docs/glossary.md", "```bash\n#DW swap\n```\n"),
        ("no place: mkdocs.yml", "docs/run/planted.md", "A page.\n"),
    ];
    for (rule, path, text) in planted {
        let mut prose = prose();
        prose.retain(|page| page.path != path);
        prose.push(Source { path: path.to_owned(), text: text.to_owned() });
        let wrong = wrong(&prose);
        assert!(matches!(&wrong[..], [one] if one.starts_with(rule)), "{rule}: {wrong:?}");
    }
    let mut manifests = manifests();
    manifests[0].text += "\n[build-dependencies]\nplanted = \"1\"\n";
    assert_eq!(manifests::wrong(&manifests).len(), 1);
}

#[test]
fn an_arrow_a_licence_and_a_subject_that_are_planted_in_this_repository_fail() {
    let mut metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array_mut().unwrap();
    let model = packages.iter_mut().find(|package| package["name"] == "model").unwrap();
    let used = model["dependencies"].as_array_mut().unwrap();
    used.push(json!({"name": "wire", "path": "/x", "kind": null}));
    model["license"] = json!("GPL-3.0-only");
    let document = read("ARCHITECTURE.md");
    assert_eq!(arrows::differences(&document, &arrows::of_metadata(&metadata)).len(), 1);
    let listed = document.replace("\nmodel\n", "\nmodel uses wire\n");
    let wrong = arrows::differences(&listed, &arrows::of_metadata(&metadata));
    assert_eq!(wrong, ["model uses wire, which is not above it"]);
    assert_eq!(licences::refused(&metadata, &licences::allowed(&read("deny.toml"))).len(), 1);
    commits::check("store, tests: Keep what was synced", &areas()).unwrap();
    commits::check("shop: Keep what was synced", &areas()).unwrap_err();
}
