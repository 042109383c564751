//! The folders that a stage names on the PFS, reached before anything is looked for there: their users' links are
//! followed once, and what others put in the way afterwards is not.

use std::path::{Path, PathBuf};

use model::phase::StageKind;
use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::StageSpec;

use crate::outside::Outside;
use crate::plan::list;
use crate::tree::Tree;

/// Reaches them.
///
/// # Errors
/// One is not among those that stages may reach.
pub(crate) fn enter(pfs: &dyn Tree, spec: &StageSpec) -> Result<(), ApiError> {
    if spec.kind == StageKind::Directory {
        // Where it is looked for if it is moved. What is above those that stages may reach is not.
        let _ = spec.pfs_path.parent().map(|above| pfs.enter(above));
    }
    folders(spec).iter().try_for_each(|folder| pfs.enter(folder)).map_err(|outside| refusal(&outside))
}

fn folders(spec: &StageSpec) -> Vec<PathBuf> {
    let above = |path: &Path| path.parent().map(Path::to_owned);
    let mut folders: Vec<PathBuf> = list::folders(spec).into_iter().collect();
    folders.extend(spec.pairs.iter().filter_map(|pair| above(&pair.pfs)));
    let is_folder = matches!(spec.kind, StageKind::Directory | StageKind::Any);
    folders.extend(is_folder.then(|| spec.pfs_path.clone()));
    folders.extend((spec.kind != StageKind::Directory).then(|| above(&spec.pfs_path)).flatten());
    folders.extend(spec.policy.manifest.as_deref().and_then(above));
    folders
}

fn refusal(outside: &Outside) -> ApiError {
    ApiError {
        code: ErrorCode::StagePath,
        blame: Blame::User,
        message: outside.to_string(),
        advice: "name a path below one of these folders; the site decides which they are".to_owned(),
    }
}
