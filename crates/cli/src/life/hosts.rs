//! What a life has to do with the hosts that its buffer is mounted on.

use model::NodeName;
use model::phase::Phase;
use wire::control::{ApiError, ErrorCode, PreRun, SessionStatus};

use super::{Ending, Life};
use crate::failure::Failure;
use crate::render;
use crate::run_record::RunRecord;

/// After a stage-out that failed.
const AGAIN: &str = "mend that, then run the command again";

/// After a mount that did not come about.
const OTHERS: &str = "mend that on the node, or have a job without it (`--exclude` of sbatch and salloc), then run the \
                      command again";

impl Life<'_> {
    /// The machines under the buffer are gone, and it with them.
    pub async fn abandon(&mut self, failure: Failure) -> Ending {
        self.end_group().await;
        if self.told.status.as_ref().is_some_and(|status| status.phase >= Phase::StagedOut) {
            self.session.output.note(&format!("forebay: note: all was staged out before this: {failure}"));
            return Ending::Completed;
        }
        Ending::Failed(failure)
    }

    /// Where it is to be mounted.
    pub(super) fn mounts(&self) -> PreRun {
        PreRun { hosts: self.record.hosts.clone(), ..PreRun::default() }
    }

    /// A buffer over the hosts of an allocation is kept by nobody: what is lost is said, and nothing is advised that
    /// would need the buffer.
    pub(super) fn as_nothing_is_kept(&mut self, ending: Ending) -> Ending {
        if self.record.hosts.is_empty() {
            return ending;
        }
        if let Some(why) = self.told.kept.take() {
            self.session.output.note(&format!(
                "forebay: {why}; the buffer ends with this command, and what is in it and not staged out is lost"
            ));
        }
        match ending {
            Ending::StageOutFailed(error) => {
                Ending::StageOutFailed(ApiError { advice: AGAIN.into(), ..error })
            }
            // What the node's advice names ends with the command.
            Ending::Failed(Failure::Api(error)) if error.code == ErrorCode::MountFailed => {
                Ending::Failed(Failure::Api(ApiError { advice: OTHERS.into(), ..error }))
            }
            other => other,
        }
    }
}

/// Which hosts keep none of the buffer, and that more were asked for than there are.
pub(super) fn left_out(record: &RunRecord, status: &SessionStatus) -> Vec<String> {
    let (hosts, mut notes) = (&record.hosts, Vec::new());
    let Some(instance) = status.instance.as_ref().filter(|_| !hosts.is_empty()) else { return notes };
    let wanted = record.fragments.map_or(hosts.len(), |wanted| wanted as usize);
    if wanted > hosts.len() {
        let there = render::counted(hosts.len() as u64, "node", "nodes");
        notes.push(format!("--nodes {wanted}: this job has {there}, and the buffer is over those"));
    }
    if instance.nodes.len() < wanted.min(hosts.len()) {
        let is_left = |host: &&NodeName| !instance.nodes.contains(host);
        let left: Vec<&str> = hosts.iter().filter(is_left).map(NodeName::as_str).collect();
        notes.push(format!(
            "nothing of the buffer is kept on {}: there is too little room in --dir there, or the capacity is too \
             small for so many nodes",
            left.join(" ")
        ));
    }
    notes
}

/// How often mounts died.
pub(super) fn losses(status: Option<&SessionStatus>) -> u32 {
    status.iter().flat_map(|status| &status.activations).map(|activation| activation.interruptions).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_host_that_keeps_nothing_is_named() {
        let hosts = |names: &[&'static str]| names.iter().map(|name| NodeName::literal(name)).collect();
        let mut status = fixtures::session();
        let mut record = RunRecord::new(status.token.clone(), status.script.clone(), "/a".into());
        assert!(left_out(&record, &status).is_empty(), "it is over no allocation");
        (record.hosts, record.fragments) = (hosts(&["n1", "n2", "n3"]), None);
        status.instance.as_mut().unwrap().nodes = hosts(&["n1", "n3"]);
        let notes = left_out(&record, &status);
        assert!(
            notes.len() == 1 && notes[0].starts_with("nothing of the buffer is kept on n2: "),
            "{notes:?}"
        );
        record.fragments = Some(2);
        assert!(left_out(&record, &status).is_empty(), "it is as was asked for");
        record.fragments = Some(9);
        let notes = left_out(&record, &status);
        assert!(
            notes.len() == 2 && notes[0] == "--nodes 9: this job has 3 nodes, and the buffer is over those"
        );
    }
}
