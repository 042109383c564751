//! Which storage nodes are waited for, and since when: one that does not answer is named in the log, once, and once
//! more when it answers again.
//!
//! A node that is gone breaks its connections, and whoever waits hears of it. One that hangs (its process is stopped,
//! its disk does not come back) says nothing, for as long as it hangs: only the clock tells.
//!
//! **Invariant:** whoever waits for a node holds a [`Waiting`].

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use model::NodeName;

/// A node that owes an answer for so long is named. Living ones answer in milliseconds, also on a busy machine.
const SILENT: Duration = Duration::from_secs(2);

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// What is known of the nodes of one instance.
#[derive(Debug)]
pub struct Watch {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    name: NodeName,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    next: u64,
    /// Who waits, by number, and since when. As few as there are threads.
    since: Vec<(u64, Instant)>,
    /// Since when it does not answer, where that was logged.
    trouble: Option<Instant>,
}

/// Somebody waits for a node. Dropped without [`Waiting::answered`], the wait ended without an answer.
#[derive(Debug)]
pub struct Waiting<'a> {
    node: &'a Node,
    number: u64,
}

impl Watch {
    /// Watches nodes of these names for as long as it lives.
    pub fn start(names: impl Iterator<Item = NodeName>) -> Arc<Watch> {
        let node = |name| Node { name, waits: Mutex::default() };
        let watch = Arc::new(Watch { nodes: names.map(node).collect() });
        let weak = Arc::downgrade(&watch);
        let started = std::thread::Builder::new().name("watch".into()).spawn(move || look_on(&weak));
        if let Err(error) = started {
            tracing::warn!(%error, "no thread to watch the storage nodes: one that hangs is not named here");
        }
        watch
    }

    /// The node with this number is asked for something now.
    pub fn waiting(&self, node: usize) -> Option<Waiting<'_>> {
        let node = self.nodes.get(node)?;
        let since = Instant::now();
        let mut waits = node.waits();
        waits.next += 1;
        let number = waits.next;
        waits.since.push((number, since));
        Some(Waiting { node, number })
    }
}

fn look_on(watch: &Weak<Watch>) {
    while let Some(watch) = watch.upgrade() {
        watch.nodes.iter().for_each(|node| node.look(Instant::now()));
        drop(watch);
        std::thread::sleep(PERIOD);
    }
}

impl Node {
    /// Names it, if it is silent and was not named.
    fn look(&self, now: Instant) {
        let mut waits = self.waits();
        if waits.trouble.is_none()
            && let Some(since) = waits.oldest().filter(|since| now.duration_since(*since) >= SILENT)
        {
            waits.trouble = Some(since);
            let ms = now.duration_since(since).as_millis();
            tracing::warn!(node = ?self.name, ms, "the storage node does not answer: what needs it waits");
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().expect("no thread panics while it notes who waits")
    }
}

impl Waits {
    fn oldest(&self) -> Option<Instant> {
        self.since.iter().map(|(_, since)| *since).min()
    }
}

impl Waiting<'_> {
    /// The node has answered.
    pub fn answered(self) {
        let mut waits = self.node.waits();
        waits.since.retain(|(number, _)| *number != self.number);
        // Where another waits for long, this answer says little.
        let silent = waits.oldest().is_some_and(|since| since.elapsed() >= SILENT);
        if !silent && let Some(since) = waits.trouble.take() {
            let ms = since.elapsed().as_millis();
            tracing::info!(node = ?self.node.name, ms, "the node answers again");
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.node.waits().since.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Arc<Watch> {
        Arc::new(Watch { nodes: vec![Node { name: NodeName::literal("n0"), waits: Mutex::default() }] })
    }

    #[test]
    fn a_node_is_in_trouble_once_it_owes_an_answer_for_long_and_until_it_answers() {
        let watch = one();
        let node = &watch.nodes[0];
        let waiting = watch.waiting(0).unwrap();
        let since = node.waits().since[0].1;
        node.look(since + SILENT / 2);
        assert_eq!(node.waits().trouble, None);
        node.look(since + SILENT);
        assert_eq!(node.waits().trouble, Some(since));
        waiting.answered();
        assert_eq!(node.waits().trouble, None);
        assert!(node.waits().since.is_empty());
    }

    #[test]
    fn an_answer_to_one_does_not_end_the_trouble_of_another_who_waits_for_long() {
        let watch = one();
        let node = &watch.nodes[0];
        let long = Instant::now().checked_sub(SILENT).unwrap();
        node.waits().since.push((99, long));
        node.look(Instant::now());
        watch.waiting(0).unwrap().answered();
        assert_eq!(node.waits().trouble, Some(long));
    }

    #[test]
    fn who_gives_up_waits_no_more_and_who_asked_nobody_is_not_waited_for() {
        let watch = one();
        drop(watch.waiting(0));
        assert!(watch.nodes[0].waits().since.is_empty());
        assert!(watch.waiting(1).is_none());
    }
}
