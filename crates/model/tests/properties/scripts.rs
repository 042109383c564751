//! Scripts: what is printed is read back; whatever is read, nothing panics, is ignored or is misplaced.

use std::path::Path;

use model::directive::{
    self, AccessModeRequest, Behaviour, BufferPath, BufferRoot, Capacity, CreatePersistent, Directive,
    InstanceType, JobDw, RequestedMode, Stage,
};
use model::phase::{AccessMode, Coherence, Direction, Drain, Redundancy, StageKind};
use model::sbatch;
use model::symbols::Symbols;
use proptest::prelude::*;

use crate::print::Style;

fn symbols() -> Symbols {
    Symbols {
        job_id: "4242".into(),
        array_job_id: "4242".into(),
        array_task_id: "0".into(),
        workdir: "/pfs/my folder".into(),
        user: "ada".into(),
        job_name: "mesh".into(),
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_.-]{0,8}"
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        (1u64..).prop_map(Capacity::Bytes),
        (1u64..1 << 20).prop_map(|gib| Capacity::Bytes(gib << 30)),
        (1u64..).prop_map(Capacity::Nodes),
    ]
}

fn access_modes() -> impl Strategy<Value = Vec<AccessModeRequest>> {
    let modes = [RequestedMode::Striped, RequestedMode::Private, RequestedMode::Ldbalance];
    let modifiers = prop::collection::btree_map("[a-zA-Z_]{1,12}", "[a-zA-Z0-9]{1,6}", 0..3);
    let made = |(mode, modifiers)| AccessModeRequest { mode, modifiers: Vec::from_iter(modifiers) };
    (prop::sample::subsequence(modes.to_vec(), 1..=3), prop::collection::vec(modifiers, 3))
        .prop_map(move |(modes, modifiers)| modes.into_iter().zip(modifiers).map(made).collect())
}

fn pfs_path() -> impl Strategy<Value = String> {
    "(/[a-zA-Z0-9_.,:=%+é()-]{1,8}){1,4}"
}

fn jobdw() -> impl Strategy<Value = JobDw> {
    let options = prop::option::of("[1-9][0-9]{0,4}")
        .prop_map(|value| value.map(|value| ("write_window_length".to_owned(), value)).into_iter().collect());
    let coherence = prop::sample::select(vec![Coherence::Posix, Coherence::Commit]);
    let redundancy = prop::sample::select(vec![Redundancy::None, Redundancy::Mirror]);
    let behaviour = (coherence, redundancy, prop::option::of(Just(Drain::OnClose)))
        .prop_map(|(coherence, redundancy, drain)| Behaviour { coherence, redundancy, drain });
    let (pool, pfs) = (prop::option::of(name()), prop::option::of(pfs_path()));
    (access_modes(), capacity(), pool, pfs, behaviour, options).prop_map(
        |(access_modes, capacity, pool, pfs, behaviour, options)| {
            let kind = if pfs.is_some() { InstanceType::Cache } else { InstanceType::Scratch };
            JobDw { kind, access_modes, capacity, pool, pfs, behaviour, options }
        },
    )
}

fn stage_kind() -> impl Strategy<Value = StageKind> {
    prop::sample::select(vec![StageKind::File, StageKind::Directory, StageKind::List, StageKind::Any])
}

/// A stage of one of the persistent buffers that every generated script uses.
fn stage() -> impl Strategy<Value = Directive> {
    let mode = prop::sample::select(vec![AccessMode::Striped, AccessMode::Private]);
    (any::<bool>(), stage_kind(), pfs_path(), "([a-z0-9_]{1,8}/){0,2}[a-z0-9_]{1,8}", mode).prop_map(
        |(is_in, kind, pfs, path, access_mode)| {
            let root = BufferRoot { buffer: model::Token::literal("kept").into(), access_mode };
            let buffer = BufferPath { root, path };
            let (source, destination) = match (kind, is_in) {
                (StageKind::List, _) => (pfs.clone(), pfs.clone()),
                (_, true) => (pfs.clone(), buffer.to_string()),
                (_, false) => (buffer.to_string(), pfs.clone()),
            };
            let buffer = (kind != StageKind::List).then_some(buffer);
            let stage = Stage { kind, source, destination, pfs, buffer };
            if is_in { Directive::StageIn(stage) } else { Directive::StageOut(stage) }
        },
    )
}

fn create() -> impl Strategy<Value = CreatePersistent> {
    let kind = prop::option::of(prop::sample::select(vec![InstanceType::Scratch, InstanceType::Cache]));
    let modes = prop_oneof![Just(Vec::new()), access_modes()];
    (name(), capacity(), modes, kind, prop::option::of(name())).prop_map(
        |(name, capacity, access_modes, kind, pool)| CreatePersistent {
            name: name.parse().unwrap(),
            capacity,
            access_modes,
            kind,
            pool,
        },
    )
}

/// Directives that make sense together: at most one of what may stand once.
fn directives() -> impl Strategy<Value = Vec<Directive>> {
    let swap = (capacity(), prop::option::of(name()))
        .prop_map(|(capacity, pool)| Directive::Swap { capacity, pool });
    let destroy = (name(), any::<bool>())
        .prop_map(|(name, hurry)| Directive::DestroyPersistent { name: name.parse().unwrap(), hurry });
    (
        prop::option::of(jobdw().prop_map(Directive::JobDw)),
        prop::option::of(create().prop_map(Directive::CreatePersistent)),
        prop::option::of(swap),
        prop::collection::vec(prop_oneof![4 => stage(), 1 => destroy], 0..6),
    )
        .prop_map(|(job, create, swap, others)| {
            let kept = Directive::PersistentDw { name: model::Token::literal("kept") };
            let singles = [job, create, Some(kept), swap].into_iter().flatten();
            singles.chain(others).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

/// Every script of the corpus.
fn corpus() -> Vec<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let scripts: Vec<String> = ["good", "broken"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(corpus.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert!(!scripts.is_empty());
    scripts
}

/// One change to a text, at a place given as a fraction of its length.
#[derive(Clone, Debug)]
enum Change {
    Insert(prop::sample::Index, String),
    Remove(prop::sample::Index, usize),
    RepeatLine(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let pieces = vec![
        "#DW ",
        "#BB ",
        "#dw ",
        "\\\n",
        "\\\\",
        "\n",
        "\r",
        "\0",
        "%",
        "%d",
        "$",
        "$DW_",
        "${",
        "}",
        "=",
        "(",
        ")",
        ",",
        " ",
        "\t",
        "/",
        "..",
        "'",
        "\"",
        "é",
        "\u{a0}",
        "jobdw",
        "stage_in",
        "capacity=",
        "0",
        "18446744073709551616",
    ];
    prop_oneof![
        (any::<prop::sample::Index>(), prop::sample::select(pieces))
            .prop_map(|(at, piece)| Change::Insert(at, piece.to_owned())),
        (any::<prop::sample::Index>(), 1usize..12).prop_map(|(at, count)| Change::Remove(at, count)),
        any::<prop::sample::Index>().prop_map(Change::RepeatLine),
    ]
}

impl Change {
    fn apply(&self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        match self {
            Change::Insert(at, piece) => {
                let at = at.index(chars.len() + 1);
                chars.splice(at..at, piece.chars());
            }
            Change::Remove(at, count) => {
                let from = at.index(chars.len() + 1);
                chars.drain(from..chars.len().min(from + count));
            }
            Change::RepeatLine(at) => {
                let lines: Vec<&str> = text.split('\n').collect();
                return format!("{text}\n{}", at.get(&lines));
            }
        }
        chars.into_iter().collect()
    }
}

/// Parses, and checks what must hold for any text.
fn check(text: &str) -> Result<(), TestCaseError> {
    let _ = sbatch::parse(text);
    let lines: Vec<&str> = text.split('\n').collect();
    let errors = match directive::parse(text, &symbols()) {
        Err(errors) => {
            prop_assert!(!errors.0.is_empty());
            prop_assert!(errors.0.is_sorted_by_key(|error| (error.line, error.column)));
            errors.0
        }
        Ok(script) => {
            let heads: Vec<u32> = script.directives.iter().map(|located| located.line).collect();
            prop_assert_eq!(heads, directive_heads(&lines), "every directive line is read");
            directive::unsupported(&script)
        }
    };
    for error in errors {
        let line = usize::try_from(error.line).unwrap();
        prop_assert!((1..=lines.len()).contains(&line), "{} of {} lines", error, lines.len());
        let columns = lines[line - 1].chars().count() + 1;
        prop_assert!(
            (1..=columns).contains(&usize::try_from(error.column).unwrap()),
            "{} of {}",
            error,
            columns
        );
        prop_assert!(!error.message.is_empty() && !error.message.contains('\n'), "{}", error);
    }
    Ok(())
}

/// The lines, from 1, that begin a directive: with a prefix, and not continuing the line before.
fn directive_heads(lines: &[&str]) -> Vec<u32> {
    let is_directive = |line: &str| {
        (line.starts_with("#DW") || line.starts_with("#BB"))
            && line[3..].chars().next().is_none_or(|c| c.is_ascii_whitespace())
    };
    let continues = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        is_directive(line) && line.ends_with('\\') && !line.ends_with("\\\\")
    };
    let is_head =
        |index: &usize| is_directive(lines[*index]) && (*index == 0 || !continues(lines[*index - 1]));
    (0..lines.len()).filter(is_head).map(|index| u32::try_from(index + 1).unwrap()).collect()
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(
        directives in directives(),
        style in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut style = Style::new(&style);
        let mut text = String::from("#!/bin/bash\n");
        let mut line = 2;
        let mut expected = Vec::new();
        for directive in directives {
            let (lines, count) = style.print(&directive);
            text += &lines;
            text += "srun ./a.out\n";
            expected.push((line, directive));
            line += count + 1;
        }
        let script = directive::parse(&text, &symbols())
            .map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        let read: Vec<_> = script.directives.into_iter().map(|located| (located.line, located.directive)).collect();
        prop_assert_eq!(read, expected, "{}", text);
    }

    #[test]
    fn changed_scripts_are_read_or_explained(
        script in prop::sample::select(corpus()),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        let text = changes.iter().fold(script, |text, change| change.apply(&text));
        check(&text)?;
    }

    #[test]
    fn any_text_is_read_or_explained(text in any::<String>()) {
        check(&text)?;
        check(&format!("#DW {text}"))?;
        check(&format!("#BB create_persistent {text}"))?;
    }

    #[test]
    fn any_line_of_a_list_is_read_or_explained(line in "[^\n]{0,40}", is_in: bool) {
        let direction = if is_in { Direction::In } else { Direction::Out };
        if let Some(Err(error)) = directive::parse_list_line(&line, direction) {
            prop_assert!(error.column >= 1 && usize::try_from(error.column).unwrap() <= line.chars().count() + 1);
        }
        if let Some(Ok(path)) = directive::parse_buffer_path(&line) {
            prop_assert!(!path.path.starts_with('/') && !path.path.split('/').any(|part| part == ".."));
        }
    }

    #[test]
    fn places_in_a_buffer_are_printed_as_they_are_read(line in "\\$DW_(JOB|PERSISTENT)_(STRIPED|PRIVATE)(_[a-z]{1,3})?[/a.]{0,9}") {
        if let Some(Ok(path)) = directive::parse_buffer_path(&line) {
            prop_assert_eq!(directive::parse_buffer_path(&path.to_string()), Some(Ok(path)));
        }
    }
}
