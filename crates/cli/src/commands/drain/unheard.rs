//! Nodes of the Slurm job that this command runs in of which no drainer has said anything.

use std::collections::BTreeSet;

use drain::namesake::node_of;
use drain::settings;
use drain::status::Answer;
use model::{NodeName, hostlist};

use crate::arguments::DrainOf;

/// As many nodes as are named.
const NAMED_MAX: usize = 20;

/// What to say of them. A job may drain some of its nodes only, on purpose: nobody else can tell.
pub(super) fn warning(of: &DrainOf, answers: &[Answer]) -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let job = variable("SLURM_JOB_ID")?;
    let is_of_job =
        settings::rendezvous(&of.to, of.session.as_deref()) == settings::rendezvous(&of.to, Some(&job));
    let nodes: usize = variable("SLURM_JOB_NUM_NODES")?.parse().ok()?;
    let heard: BTreeSet<&str> = answers.iter().map(|answer| node_of(&answer.host)).collect();
    if !is_of_job {
        return None;
    }
    let list = variable("SLURM_JOB_NODELIST").unwrap_or_default();
    let names = hostlist::names(&list).unwrap_or_default();
    // Drainers may have been given other names.
    let known = names.iter().filter(|name| heard.contains(name.as_str())).count();
    let of_job = if known > 0 { known } else { heard.len() };
    if of_job >= nodes {
        return None;
    }
    let missing: Vec<&str> =
        names.iter().map(NodeName::as_str).filter(|name| !heard.contains(name)).collect();
    let missing = if missing.is_empty() {
        format!("the others of {list}")
    } else {
        missing.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ")
    };
    Some(format!(
        "forebay: WARNING: drainers were started on {of_job} of the {nodes} nodes of this job: nothing was heard of \
         {missing}; if they have files to drain, run `srun --ntasks-per-node=1 forebay drain start`, then repeat \
         the command"
    ))
}
