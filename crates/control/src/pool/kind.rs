//! What a kind of pool answers, from the script that asks for a buffer to the end of that buffer.
//!
//! What is written out here is right for buffers that are fragments on storage nodes, which clients mount; other kinds
//! say otherwise.
//!
//! **Invariant:** every step can be called again after a crash, and then converges.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use model::NodeName;
use model::buffer::BufferRef;
use model::phase::AccessMode;
use wire::control::{ApiError, PoolStatus};

use super::refusals::check_total;
use super::room::{Ground, Placement, Share, Wish};
use crate::app::App;
use crate::lifecycle::buffers::Buffer;
use crate::lifecycle::mounting::{self, Gone, Mounting};
use crate::lifecycle::target::Described;
use crate::lifecycle::{fragments, served};
use crate::node_api::Unmount;
use crate::script::Plan;
use crate::site::{PoolSetting, Site};
use crate::state::activations::Activation;
use crate::state::instances::Instance;
use crate::state::sessions::Session;
use crate::state::transfers::Transfer;

/// One step in the life of a buffer.
pub(crate) type Step<'a, T = ()> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send + 'a>>;

/// A kind of pool.
pub(crate) trait Kind<S: Site>: Sync {
    /// The pool as everybody sees it.
    fn status(&self, ground: &Ground, pool: &PoolSetting, shares: &[Share]) -> PoolStatus;

    /// Over how many nodes a wish goes at least, as far as the pool's size is concerned.
    ///
    /// # Errors
    /// It cannot go over as many as it must.
    fn fragments_min(&self, _wish: &Wish<'_>) -> Result<u64, ApiError> {
        Ok(1)
    }

    /// Checks that the pool could hold a wish that takes `bytes`, were it empty.
    ///
    /// # Errors
    /// It could not, ever.
    fn check(
        &self,
        ground: &Ground,
        pool: &PoolSetting,
        bytes: u64,
        wish: &Wish<'_>,
        shares: &[Share],
    ) -> Result<(), ApiError> {
        check_total(&self.status(ground, pool, shares), bytes, wish)
    }

    /// Finds room for a wish that takes at least `bytes`.
    ///
    /// # Errors
    /// There is none now.
    fn place(
        &self,
        ground: &Ground,
        pool: &PoolSetting,
        bytes: u64,
        wish: &Wish<'_>,
        shares: &[Share],
    ) -> Result<Placement, ApiError>;

    /// See [`Ground::spare`].
    fn spare(
        &self,
        _ground: &Ground,
        _instance: &Instance,
        _taken: &[NodeName],
        _shares: &[Share],
    ) -> Option<NodeName> {
        None
    }

    /// Refuses a script with what the job's own buffer cannot do.
    ///
    /// # Errors
    /// The script asks for it.
    fn check_script(&self, _plan: &Plan) -> Result<(), ApiError> {
        Ok(())
    }

    /// Refuses a mirror where a buffer cannot have one. Whether there are two nodes is found out when it is placed.
    ///
    /// # Errors
    /// It cannot.
    fn check_mirror(&self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Refuses a buffer in `pool` that outlives its job.
    ///
    /// # Errors
    /// There is none there.
    fn check_persistent(&self, _pool: &PoolSetting) -> Result<(), ApiError> {
        Ok(())
    }

    /// Adds to a session that is to be registered what its nodes must know and its caller did not say.
    ///
    /// # Errors
    /// It cannot be found out.
    fn complete<'a>(&'a self, _session: &'a mut Session) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    /// Makes what is there before the job's nodes are known.
    ///
    /// # Errors
    /// A node's.
    fn allocate<'a>(&'a self, app: &'a App<S>, of: &'a Described) -> Step<'a> {
        Box::pin(fragments::make(app, of))
    }

    /// Makes what there is to make now that the job's nodes are known.
    ///
    /// # Errors
    /// A node's: then nothing of it is left.
    fn prepare<'a>(
        &'a self,
        _app: &'a App<S>,
        _session: &'a Session,
        _buffer: &'a mut Buffer,
        _hosts: &'a [NodeName],
    ) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    /// Checks that the buffer is served, before it is mounted: once, however many nodes mount it.
    ///
    /// # Errors
    /// A part is not served.
    fn check_served<'a>(&'a self, app: &'a App<S>, buffer: &'a Buffer) -> Step<'a> {
        Box::pin(served::check(app, buffer))
    }

    /// Where the job finds a namespace of the buffer `buffer` on a node that mounts below `root`.
    fn mountpoint(
        &self,
        _site: &S,
        session: &Session,
        root: &Path,
        (buffer, mode): (&BufferRef, AccessMode),
    ) -> PathBuf {
        mounting::default_mountpoint(root, &session.token, buffer, mode)
    }

    /// Gives the buffer to the job on one node.
    ///
    /// # Errors
    /// The node's.
    fn mount<'a>(&'a self, app: &'a App<S>, wanted: Mounting<'a>) -> Step<'a> {
        Box::pin(mounting::mount(app, wanted))
    }

    /// Takes it from the job on one node. One that does not answer is told when it is back.
    ///
    /// # Errors
    /// The node's.
    fn release<'a>(
        &'a self,
        app: &'a App<S>,
        session: &'a Session,
        activation: &'a Activation,
        how: Unmount,
    ) -> Step<'a, Gone> {
        Box::pin(mounting::unmount(app, session, activation, how))
    }

    /// The variables that the job has of a namespace at `path` besides DataWarp's.
    fn variables(&self, _path: &Path, _instance: &Instance, _stages: &[Transfer]) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Whether the job's nodes copy by themselves what is to be staged out; else control has it copied.
    fn drains_itself(&self) -> bool {
        false
    }

    /// Waits until the nodes have copied it.
    ///
    /// # Errors
    /// What one of them cannot copy, or that one does not answer.
    fn drained<'a>(&'a self, _app: &'a App<S>, _session: &'a Session) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    /// Discards the buffer; in a `hurry` also what nodes still have to copy. What is on a node that does not answer is
    /// discarded when that is back.
    ///
    /// # Errors
    /// A node's: the instance must stay noted then.
    fn discard<'a>(
        &'a self,
        app: &'a App<S>,
        _session: &'a Session,
        instance: &'a Instance,
        _hurry: bool,
    ) -> Step<'a> {
        Box::pin(fragments::destroy(app, instance))
    }
}
