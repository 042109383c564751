//! Making what was written survive a power loss, and saying when it did not.
//!
//! A handle is a number that the caller took from [`Client::handle`] when it opened a file or folder. Each handle is
//! told once of what was lost while it was open. Callers without handles (stages) are told once for each file; what may
//! concern everything fails all their syncs from then on.

use std::sync::Arc;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::EVERYTHING;
use wire::data::{Reply, Request};

use super::commits::Memory;
use super::failures::Failures;
use super::{Client, Result};

/// Files in one request: their list must fit a message.
const DOUBTS_MAX: usize = 16_384;

impl Client {
    /// A number for a handle that is being opened.
    pub fn handle(&self) -> u64 {
        Failures::stamp()
    }

    /// Lets `memory` keep what a successor of this process must know of what was written and lost. The first call
    /// counts.
    pub fn remember_in(&self, memory: Arc<dyn Memory>) {
        self.nodes.commits().keep_in(memory);
    }

    /// Makes the file's contents and every metadata change so far survive a power loss of the storage nodes, for a
    /// handle on it.
    ///
    /// # Errors
    /// What was written to the file was lost, through whichever handle, and this one was not told yet; ESTALE: the file
    /// itself was lost.
    pub fn fsync_by(&self, ino: Ino, handle: u64) -> Result<()> {
        let synced = self.sync_and_hear(&[ino], ino, self.syncs_of(ino));
        self.nodes.commits().wait_for_syncs(ino);
        self.tell_after(synced, ino, handle)
    }

    /// Makes every metadata change so far survive a power loss of the home shard's node, for a handle on a folder.
    ///
    /// # Errors
    /// Names or attributes were lost, and the handle was not told yet.
    pub fn sync_metadata_by(&self, handle: u64) -> Result<()> {
        let synced = self.sync_and_hear(&[], EVERYTHING, Vec::new());
        self.tell_after(synced, EVERYTHING, handle)
    }

    /// As [`Client::sync_all`], for a handle on a file: hears what others have lost of it, too.
    fn sync_and_hear(
        &self,
        inos: &[Ino],
        of: Ino,
        mut requests: Vec<(FragmentIndex, Request)>,
    ) -> Result<()> {
        let commits = self.nodes.commits();
        let (moment, replaced) = (commits.moment(), commits.replaced());
        self.tell_doubts()?;
        requests.push((self.home, Request::SyncMetadata));
        let question = commits.question(of);
        requests.extend(question.map(|question| (self.home, question)));
        let replies = self.ask_each(requests.into_iter())?;
        commits.confirmed(inos, moment);
        let mut said = replies.into_iter().last();
        if commits.replaced() != replaced
            && let Some(question) = commits.question(of)
        {
            // The home learns from this client that the node has lost what ended clients left there: ask again.
            self.tell_doubts()?;
            said = Some(self.ask(self.home, &question, &[])?);
        }
        while let Some(Reply::Losses(losses)) = said.take() {
            if commits.hear(&losses)
                && let Some(question) = commits.question(of)
            {
                said = Some(self.ask(self.home, &question, &[])?);
            }
        }
        Ok(())
    }

    /// What a handle is told that has just synced: what it has not heard of yet, or what became of the sync. The home
    /// hears of a loss before; where it cannot, the handle is told once more, the next time.
    pub(super) fn tell_after(&self, synced: Result<()>, ino: Ino, handle: u64) -> Result<()> {
        let commits = self.nodes.commits();
        if commits.owes(ino, handle) {
            let _again = self.tell_doubts();
        }
        let told = commits.tell(ino, handle);
        let result = told.and(synced);
        if result == Err(Errno::IO) {
            tracing::warn!(%ino, was_lost = told.is_err(), ?synced, "a program's fsync is EIO");
        }
        if result.is_err() {
            let _later = self.tell_doubts();
        }
        result
    }

    /// Makes every metadata change so far survive a power loss of the home shard's node, for nobody's handle.
    ///
    /// # Errors
    /// The node could not.
    pub fn sync_names(&self) -> Result<()> {
        self.sync_all(&[], Vec::new())
    }

    /// Answers for what a former client wrote and did not sync: a loss of any fragment from now on is told as if it was
    /// this one's.
    pub fn inherit(&self) {
        self.nodes.commits().inherit();
    }

    /// A write to the file that its writer believes to be done could not be sent.
    pub fn lost(&self, ino: Ino, errno: Errno) {
        let fragment = self.layout.fragments_of(ino).next().unwrap_or(self.home);
        self.nodes.commits().failed(fragment, ino, errno);
    }

    /// Tells a handle what it has not heard of yet.
    ///
    /// # Errors
    /// What was written to the file was lost.
    pub fn tell(&self, ino: Ino, handle: u64) -> Result<()> {
        self.tell_after(Ok(()), ino, handle)
    }

    /// Looks every second, from a thread of its own that ends with the client, whether a node was lost and is back:
    /// what it lost is then told to the home shard, also where this client asks nobody for anything.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn look_out_for_losses(self: &Arc<Client>) {
        self.every_second("lookout", |client| {
            client.nodes.look_out();
            // Where the home is away, it is told later.
            let _later = client.tell_doubts();
        });
    }

    /// Tells the home shard of which files a fragment has lost changes, and which losses programs were told of, if that
    /// was not said yet. Whoever comes meanwhile waits.
    pub(super) fn tell_doubts(&self) -> Result<()> {
        let commits = self.nodes.commits();
        if commits.doubts().is_none() && commits.news().is_none() {
            return Ok(());
        }
        let _alone = self.doubting.lock().expect("no thread panics while it tells the home shard of losses");
        while let Some(news) = commits.news() {
            match self.ask(self.home, &Request::Losses(news.clone()), &[]) {
                // Whoever works for a user tells nothing of files that may be others'.
                Err(Errno::PERM) => commits.refused(&news),
                Ok(Reply::Losses(losses)) if commits.hear(&losses) => {}
                answer => commits.delivered(&news, answer? == Reply::Truth(true)),
            }
        }
        let Some(doubts) = commits.doubts() else { return Ok(()) };
        // One request without names means them all.
        let lists =
            if doubts.all.is_some() { vec![&[][..]] } else { doubts.files.chunks(DOUBTS_MAX).collect() };
        for inos in lists {
            self.ask(self.home, &Request::Doubt { inos: inos.to_vec() }, &[])?;
        }
        commits.doubted(&doubts);
        Ok(())
    }

    /// What makes a file survive. One whose name may have been lost must be shown to be there still.
    pub(super) fn syncs_of(&self, ino: Ino) -> Vec<(FragmentIndex, Request)> {
        let objects = self.layout.fragments_of(ino).map(|fragment| (fragment, Request::Sync { ino }));
        let exists = self.nodes.commits().may_lack_names().then_some((self.home, Request::GetAttr { ino }));
        objects.chain(exists).collect()
    }

    pub(super) fn sync_all(&self, inos: &[Ino], mut requests: Vec<(FragmentIndex, Request)>) -> Result<()> {
        let moment = self.nodes.commits().moment();
        requests.push((self.home, Request::SyncMetadata));
        self.ask_each(requests.into_iter())?;
        self.nodes.commits().confirmed(inos, moment);
        Ok(())
    }

    /// Knows the commit verifier of each fragment of the file, so that a loss of what others do for this client is
    /// seen: the home shard truncates objects.
    pub(super) fn learn_verifiers(&self, ino: Ino) -> Result<()> {
        let unknown = self
            .layout
            .fragments_of(ino)
            .filter(|fragment| self.nodes.commits().verifier(*fragment).is_none());
        self.ask_each(unknown.map(|fragment| (fragment, Request::Verifier))).map(drop)
    }
}
