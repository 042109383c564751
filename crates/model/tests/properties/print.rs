//! Directives as text, in one of the many ways that mean the same.

use model::directive::{
    AccessModeRequest, Behaviour, Capacity, Directive, InstanceType, RequestedMode, Stage,
};
use model::phase::{Coherence, Redundancy, StageKind};

/// Choices of spelling, used up one by one.
pub(crate) struct Style<'a> {
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl<'a> Style<'a> {
    /// `choices` must not be empty.
    pub(crate) fn new(choices: &'a [u8]) -> Style<'a> {
        Style { choices: choices.iter().cycle() }
    }

    fn choose<'b>(&mut self, options: &[&'b str]) -> &'b str {
        options[usize::from(*self.choices.next().unwrap()) % options.len()]
    }

    /// The directive's line or lines, and how many lines they are.
    pub(crate) fn print(&mut self, directive: &Directive) -> (String, u32) {
        let (prefix, keyword, mut options) = words(directive, self);
        if !options.is_empty() {
            let by = usize::from(*self.choices.next().unwrap()) % options.len();
            options.rotate_left(by);
        }
        let mut lines = 1;
        let mut text = format!("{prefix}{}{keyword}", self.choose(&[" ", "\t", "  "]));
        for option in options {
            let space = self.choose(&[" ", "   ", "\t", " \\\n", "\\\r\n"]);
            text += space;
            if space.contains('\n') {
                lines += 1;
                text += prefix;
                text += self.choose(&[" ", "\t  "]);
            }
            text += &option;
        }
        text += self.choose(&["", " ", "\t", "\r"]);
        text += "\n";
        (text, lines)
    }
}

fn promised(behaviour: &Behaviour) -> Vec<String> {
    let coherence = (behaviour.coherence == Coherence::Commit).then_some("coherence=commit");
    let redundancy = (behaviour.redundancy == Redundancy::Mirror).then_some("redundancy=mirror");
    let drain = behaviour.drain.map(|_| "drain=on-close");
    [coherence, redundancy, drain].into_iter().flatten().map(str::to_owned).collect()
}

fn words(directive: &Directive, style: &mut Style) -> (&'static str, &'static str, Vec<String>) {
    match directive {
        Directive::JobDw(job) => {
            let mut words = vec![
                format!("type={}", kind(job.kind)),
                format!("{}={}", style.choose(&["access_mode", "access"]), modes(&job.access_modes)),
                format!("capacity={}", capacity(job.capacity, style)),
            ];
            words.extend(job.pool.iter().map(|pool| format!("pool={pool}")));
            words.extend(job.pfs.iter().map(|pfs| format!("pfs={}", percent(pfs))));
            words.extend(promised(&job.behaviour));
            words.extend(job.options.iter().map(|(name, value)| format!("{name}={value}")));
            ("#DW", "jobdw", words)
        }
        Directive::PersistentDw { name } => ("#DW", "persistentdw", vec![format!("name={name}")]),
        Directive::StageIn(stage) => ("#DW", "stage_in", copy(stage)),
        Directive::StageOut(stage) => ("#DW", "stage_out", copy(stage)),
        Directive::Swap { capacity: size, pool } => {
            let mut words = vec![capacity(*size, style)];
            words.extend(pool.iter().map(|pool| format!("pool={pool}")));
            ("#DW", "swap", words)
        }
        Directive::CreatePersistent(create) => {
            let mut words = vec![
                format!("name={}", create.name),
                format!("capacity={}", capacity(create.capacity, style)),
            ];
            if !create.access_modes.is_empty() {
                words.push(format!("access={}", modes(&create.access_modes)));
            }
            words.extend(create.kind.map(|it| format!("type={}", kind(it))));
            words.extend(create.pool.iter().map(|pool| format!("pool={pool}")));
            ("#BB", "create_persistent", words)
        }
        Directive::DestroyPersistent { name, hurry } => {
            let mut words = vec![format!("name={name}")];
            words.extend(hurry.then(|| "hurry".to_owned()));
            ("#BB", "destroy_persistent", words)
        }
    }
}

fn copy(stage: &Stage) -> Vec<String> {
    let kind = match stage.kind {
        StageKind::File => "file",
        StageKind::Directory => "directory",
        StageKind::List => "list",
        StageKind::Any => "any",
    };
    let mut words = vec![format!("type={kind}"), format!("source={}", percent(&stage.source))];
    if stage.kind != StageKind::List {
        words.push(format!("destination={}", percent(&stage.destination)));
    }
    words
}

fn percent(path: &str) -> String {
    path.replace('%', "%%")
}

fn kind(kind: InstanceType) -> &'static str {
    match kind {
        InstanceType::Scratch => "scratch",
        InstanceType::Cache => "cache",
    }
}

fn capacity(capacity: Capacity, style: &mut Style) -> String {
    match capacity {
        Capacity::Bytes(bytes) if bytes % (1 << 30) == 0 => {
            format!("{}{}", bytes >> 30, style.choose(&["GiB", "G", "gib"]))
        }
        Capacity::Bytes(bytes) => bytes.to_string(),
        Capacity::Nodes(nodes) => format!("{nodes}{}", style.choose(&["N", "nodes", "node"])),
    }
}

fn modes(requests: &[AccessModeRequest]) -> String {
    let mode = |request: &AccessModeRequest| {
        let name = match request.mode {
            RequestedMode::Striped => "striped",
            RequestedMode::Private => "private",
            RequestedMode::Ldbalance => "ldbalance",
        };
        let modifiers: Vec<String> =
            request.modifiers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if modifiers.is_empty() { name.to_owned() } else { format!("{name}({})", modifiers.join(",")) }
    };
    requests.iter().map(mode).collect::<Vec<_>>().join(",")
}
