//! Whether the nodes of a job have drained their volumes.

use std::time::{Duration, Instant};

use daemon::error::site;
use model::NodeName;
use model::phase::{AccessMode, Direction, StageState};
use wire::control::{ApiError, ErrorCode};
use wire::node::LocalStatus;

use crate::app::App;
use crate::lifecycle::join_all;
use crate::node_api::Release;
use crate::site::Site;
use crate::state::activations;
use crate::state::sessions::Session;
use crate::state::transfers::Transfer;

/// How often nodes are asked whether a volume is drained.
const POLL: Duration = Duration::from_millis(500);

/// How long a volume may be kept before that counts as a failure, beyond the time in which the job's processes end: as
/// long as they run, their files are open.
const KEPT_MAX: Duration = Duration::from_secs(15);

/// Waits until every node of the job has drained its volume.
///
/// # Errors
/// What one of them cannot drain, or that one does not answer.
pub(super) async fn wait<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let nodes = nodes(app, session).await?;
    join_all(nodes.iter().map(|node| drained_at(app, session, node))).await.into_iter().collect()
}

async fn drained_at<S: Site>(app: &App<S>, session: &Session, node: &NodeName) -> Result<(), ApiError> {
    let grace = app.site.cluster().map_or(0, |setting| setting.fence_grace_s);
    let mut kept_since = None;
    loop {
        let Some(volume) = find(app, session, node).await? else { return Ok(()) };
        let Some(why) = volume.kept else {
            kept_since = None;
            tokio::time::sleep(POLL).await;
            continue;
        };
        let since = kept_since.get_or_insert_with(Instant::now);
        if since.elapsed() > KEPT_MAX + Duration::from_secs(grace) {
            let message = format!("node {node}: {why}");
            let advice = "mend that; the data is kept on the node, which tries again by itself";
            return Err(site(ErrorCode::NotDrained, message, advice));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The volume, if its node still has it.
async fn find<S: Site>(
    app: &App<S>,
    session: &Session,
    node: &NodeName,
) -> Result<Option<LocalStatus>, ApiError> {
    let mut asked = false;
    loop {
        let mut all = app.site.locals(node).await?.into_iter();
        let listed = all.find(|volume| volume.id == session.handle);
        if listed.is_some() || asked {
            return Ok(listed);
        }
        // Nodes list what they have taken up. Told to let the volume go, which it is told already, the node looks for
        // it on its disk: it refuses where it cannot read what is there, and drains what it finds.
        app.site.release_local(node, &session.handle, Release::Drained).await?;
        asked = true;
    }
}

/// The stage that the volume's drain is.
pub(super) fn is_drained(stage: &Transfer) -> bool {
    let own = stage.buffer.is_own() && stage.access_mode == AccessMode::Private;
    own && stage.direction == Direction::Out && stage.state != StageState::Complete
}

/// The nodes that have, or had, a volume of the session.
///
/// # Errors
/// The database's.
pub(super) async fn nodes<S: Site>(app: &App<S>, session: &Session) -> Result<Vec<NodeName>, ApiError> {
    let token = session.token.clone();
    let all = app.database.transact(move |tx| activations::of(tx, &token)).await?;
    let volumes = all.into_iter().filter(|activation| activation.buffer.is_own());
    Ok(volumes.map(|activation| activation.node).collect())
}

/// The folder of the volume that is drained, below its root.
pub(super) fn drained_folder(stage: &Transfer) -> &str {
    stage.buffer_path.trim_end_matches('/')
}
