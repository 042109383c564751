//! `forebay rekey`: an operator changes the key of a buffer.

use std::path::PathBuf;

use api::control::session_path;
use serde_json::json;
use wire::control::Rekeyed;

use super::Context;
use super::cluster::Control;
use crate::arguments::Rekey;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// Changes the key of a buffer of this user's own service.
///
/// # Errors
/// There is no such buffer, a stage runs in it, or a node is away.
pub async fn run(arguments: &Rekey, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let rekeyed = match context.known(&arguments.token).await {
        Ok(_) => context.service.post(&path(arguments), &json!({})).await,
        Err(failure) => Err(failure),
    };
    context.service.stop_if_started().await;
    Ok(told(arguments, &rekeyed?, output))
}

/// The same on a cluster.
///
/// # Errors
/// As [`run`].
pub fn cluster_run(arguments: &Rekey, output: &Output) -> Result<u8, Failure> {
    let rekeyed = Control::of_cluster(output).post(&path(arguments), &json!({}))?;
    Ok(told(arguments, &rekeyed, output))
}

fn path(arguments: &Rekey) -> String {
    session_path(arguments.token.as_str(), "/rekey")
}

fn told(arguments: &Rekey, rekeyed: &Rekeyed, output: &Output) -> u8 {
    if arguments.json {
        output.object(rekeyed);
    } else {
        let nodes = render::counted(rekeyed.nodes.len() as u64, "node", "nodes");
        let mounts = render::counted(rekeyed.mounts as u64, "mount", "mounts");
        output.say(&format!(
            "forebay: buffer {} has another key on {nodes} and in {mounts}; the former one opens nothing any more",
            rekeyed.token
        ));
    }
    ExitCode::Success.number()
}
