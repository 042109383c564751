//! The directives that make, use or end an instance: jobdw, persistentdw, swap, create_persistent and
//! destroy_persistent.

use super::behaviour::{self, behaviour};
use super::lines::{Statement, Word};
use super::options::{Known, Options};
use super::paths::check_pfs_path;
use super::values::{access_modes, capacity, instance_type};
use super::{AccessModeRequest, CreatePersistent, Directive, InstanceType, JobDw, RequestedMode, hints};
use crate::Token;
use crate::phase::AccessMode;

const JOBDW: Known = Known {
    options: &["type", "access_mode", "capacity", "pool", "pfs"],
    kept: &behaviour::OPTIONS,
    rare: &hints::OPTIONS,
    plain: None,
};
const PERSISTENTDW: Known = Known { options: &["name"], kept: &[], rare: &[], plain: None };
const SWAP: Known = Known { options: &["pool"], kept: &[], rare: &[], plain: Some("SIZE") };
const CREATE: Known = Known {
    options: &["name", "capacity", "access_mode", "type", "pool"],
    kept: &[],
    rare: &[],
    plain: None,
};
const DESTROY: Known = Known { options: &["name"], kept: &[], rare: &[], plain: Some("hurry") };

/// A directive, unless the options note why not.
type Read = (Option<Directive>, Options);

pub(super) fn jobdw(keyword: &Word, statement: &Statement) -> Read {
    let mut options = Options::read(keyword, statement, &JOBDW);
    let kind = options.require("type", "type=scratch").and_then(|word| {
        let kind = instance_type(&word.text);
        options.note(&word, kind)
    });
    let modes = options.require("access_mode", "access_mode=striped").and_then(|word| {
        let modes = access_modes(&word.text);
        options.note(&word, modes)
    });
    let capacity = required_capacity(&mut options);
    let pfs = pfs(&mut options, kind);
    let behaviour = behaviour(&mut options);
    let directive = (|| {
        Some(Directive::JobDw(JobDw {
            kind: kind?,
            access_modes: modes?,
            capacity: capacity?,
            pool: text_of(&options, "pool"),
            pfs,
            behaviour: behaviour?,
            options: options.among(&hints::OPTIONS),
        }))
    })();
    (directive, options)
}

/// The namespaces that the modes ask for, in the script's order. Copies for reading are not made: what is written is in
/// the striped namespace, which all nodes read alike.
pub fn namespaces(modes: &[AccessModeRequest]) -> Vec<AccessMode> {
    let mut namespaces = Vec::new();
    for request in modes {
        let mode = match request.mode {
            RequestedMode::Striped | RequestedMode::Ldbalance => AccessMode::Striped,
            RequestedMode::Private => AccessMode::Private,
        };
        if !namespaces.contains(&mode) {
            namespaces.push(mode);
        }
    }
    namespaces
}

impl JobDw {
    /// Whether the two lines ask for one buffer, with the sum of their sizes: Slurm counts them so.
    pub(super) fn joins(&self, other: &JobDw) -> bool {
        let theirs = namespaces(&other.access_modes);
        let alike = |job: &JobDw| (job.kind, job.pool.clone(), job.pfs.clone(), job.behaviour);
        alike(self) == alike(other)
            && !namespaces(&self.access_modes).iter().any(|mode| theirs.contains(mode))
    }
}

pub(super) fn persistentdw(keyword: &Word, statement: &Statement) -> Read {
    let mut options = Options::read(keyword, statement, &PERSISTENTDW);
    let name = required_name(&mut options);
    (name.map(|name| Directive::PersistentDw { name }), options)
}

pub(super) fn swap(keyword: &Word, statement: &Statement) -> Read {
    let mut options = Options::read(keyword, statement, &SWAP);
    let capacity = match options.plain() {
        Some(word) => {
            let capacity = capacity(&word.text);
            options.note(&word, capacity)
        }
        None => {
            options.error(keyword.place, "swap needs a size, as swap 16GiB".to_owned());
            None
        }
    };
    let pool = text_of(&options, "pool");
    (capacity.map(|capacity| Directive::Swap { capacity, pool }), options)
}

pub(super) fn create_persistent(keyword: &Word, statement: &Statement) -> Read {
    let mut options = Options::read(keyword, statement, &CREATE);
    let name = required_name(&mut options);
    let capacity = required_capacity(&mut options);
    let modes = options.get("access_mode").map(|word| {
        let modes = access_modes(&word.text);
        options.note(&word, modes)
    });
    let kind = options.get("type").map(|word| {
        let kind = instance_type(&word.text);
        options.note(&word, kind)
    });
    let directive = (|| {
        Some(Directive::CreatePersistent(CreatePersistent {
            name: name?,
            capacity: capacity?,
            access_modes: modes.unwrap_or_else(|| Some(Vec::new()))?,
            kind: kind.flatten(),
            pool: text_of(&options, "pool"),
        }))
    })();
    (directive, options)
}

pub(super) fn destroy_persistent(keyword: &Word, statement: &Statement) -> Read {
    let mut options = Options::read(keyword, statement, &DESTROY);
    let name = required_name(&mut options);
    let hurry = match options.plain() {
        Some(word) if word.text != "hurry" => {
            options.error(word.place, format!("unexpected `{}`; expected name= and hurry only", word.text));
            false
        }
        plain => plain.is_some(),
    };
    (name.map(|name| Directive::DestroyPersistent { name, hurry }), options)
}

fn required_capacity(options: &mut Options) -> Option<super::Capacity> {
    let word = options.require("capacity", "capacity=10GiB")?;
    options.note(&word, capacity(&word.text))
}

fn required_name(options: &mut Options) -> Option<Token> {
    let word = options.require("name", "name=mybuffer")?;
    options.note(&word, Token::of_buffer(&word.text).map_err(|bad| bad.to_string()))
}

/// The cached directory: a cache must have one, scratch must not.
fn pfs(options: &mut Options, kind: Option<InstanceType>) -> Option<String> {
    if kind == Some(InstanceType::Cache) {
        let word = options.require("pfs", "pfs=/scratch/data: a cache stands in front of that directory")?;
        options.note(&word, check_pfs_path(&word.text))?;
        return Some(word.text);
    }
    let word = options.get("pfs")?;
    if kind.is_some() {
        options.error(
            word.place,
            "pfs= belongs to type=cache; a scratch buffer has no PFS directory behind it".into(),
        );
    }
    None
}

fn text_of(options: &Options, name: &str) -> Option<String> {
    options.get(name).map(|word| word.text)
}
