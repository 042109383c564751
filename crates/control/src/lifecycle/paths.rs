//! `paths` and `real_size`: what the job is told. Both only look.

use std::collections::BTreeMap;

use model::Token;
use model::directive::BufferRoot;
use wire::control::{ApiError, Paths, RealSize};

use super::{buffers, require_set_up};
use crate::app::App;
use crate::pool;
use crate::script;
use crate::site::Site;
use crate::state::{activations, instances, transfers};

/// Which options of the script have no effect, for `packaging/slurm/task_prolog.sh`.
const NOTE: &str = "FOREBAY_NOTE";

/// The job's environment; may be asked before the mounts are there, as Slurm does.
///
/// # Errors
/// `no_such_session`, or nothing is allocated.
pub(crate) async fn paths<S: Site>(app: &App<S>, token: &Token) -> Result<Paths, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    let name = token.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((activations::of(tx, &name)?, transfers::of_script(tx, &name)?))
    };
    let (mounts, stages) = app.database.transact(read).await?;
    let mut variables = BTreeMap::new();
    let mut roots = Vec::new();
    for buffer in buffers::of(app, &session).await? {
        for mode in buffer.described.instance.access_modes.clone() {
            let mounted = mounts.iter().find(|activation| {
                activation.mounted && activation.access_mode == mode && activation.buffer == buffer.which
            });
            let kind = pool::kind::<S>(buffer.described.instance.kind);
            let mountpoint = match mounted {
                Some(activation) => activation.mountpoint.clone(),
                None => {
                    let of = (&buffer.which, mode);
                    kind.mountpoint(&app.site, &session, &app.site.mount_folder(), of)
                }
            };
            variables.extend(kind.variables(&mountpoint, &buffer.described.instance, &stages));
            let root = BufferRoot { buffer: buffer.which.clone(), access_mode: mode };
            variables.insert(root.variable(), format!("{}/", mountpoint.display()));
            roots.push(root);
        }
    }
    variables.extend(for_shells(&roots, &variables));
    // The script's user sees no other answer to what he submitted: our TaskProlog prints it.
    let note = session.is_of_job().then(|| script::without_effect(&session.notes)).flatten();
    variables.extend(note.map(|note| (NOTE.to_owned(), note.clone())));
    Ok(Paths { variables })
}

/// The variables that shells can read of those that they cannot. Of two buffers that would have one variable neither
/// has it: it would lead to the wrong one.
fn for_shells(roots: &[BufferRoot], variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_one = |name: &str| roots.iter().filter(|root| root.shell_variable() == name).count() == 1;
    let spelt = roots.iter().map(|root| (root.shell_variable(), root.variable()));
    let free = spelt.filter(|(name, _)| is_one(name));
    free.filter_map(|(name, written)| Some((name, variables.get(&written)?.clone()))).collect()
}

/// What was really allocated.
///
/// # Errors
/// `no_such_session`, or nothing is allocated.
pub(crate) async fn real_size<S: Site>(app: &App<S>, token: &Token) -> Result<RealSize, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    let name = token.to_owned();
    let instance = app.database.transact(move |tx| instances::find(tx, &name)).await?;
    let capacity = instance.map(|instance| instance.capacity_bytes).unwrap_or_default();
    Ok(RealSize { capacity, units: "bytes".to_owned() })
}
