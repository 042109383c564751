//! Questions about many stages, in pieces: everybody waits for who uses the database, so nobody does for long.

use rusqlite::Transaction;
use wire::control::{ApiError, StageScope};

use crate::app::App;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::transfers::{PAGE, Space, Transfer};
use crate::state::{self, transfers};

/// As many paths are looked up at once, each folder above one counted. No more than a page has room for.
const LOOKED_UP_AT_ONCE: usize = PAGE;

/// One of the state's questions about a scope: of its stages the next after a number, at most [`PAGE`].
pub(super) type Question = fn(&Transaction<'_>, &Space, &StageScope, u64) -> state::Result<Vec<Transfer>>;

/// The same scope in pieces that one question each may be about.
pub(super) fn of(scope: StageScope) -> Vec<StageScope> {
    match scope {
        StageScope::Files(paths) => {
            let cost = |path: &String| 1 + path.matches('/').count();
            cut(paths, cost).into_iter().map(StageScope::Files).collect()
        }
        StageScope::Ids(ids) => cut(ids, |_| 1).into_iter().map(StageScope::Ids).collect(),
        whole => vec![whole],
    }
}

fn cut(all: Vec<String>, cost: impl Fn(&String) -> usize) -> Vec<Vec<String>> {
    let (mut pieces, mut left) = (Vec::new(), 0);
    for one in all {
        let costs = cost(&one);
        if costs > left {
            pieces.push(Vec::new());
            left = LOOKED_UP_AT_ONCE;
        }
        left = left.saturating_sub(costs);
        if let Some(piece) = pieces.last_mut() {
            piece.push(one);
        }
    }
    pieces
}

/// The next page of a piece.
///
/// # Errors
/// The database's.
pub(super) async fn page<S: Site>(
    app: &App<S>,
    rights: Rights,
    space: &Space,
    (piece, after): (&StageScope, u64),
    question: Question,
) -> Result<Vec<Transfer>, ApiError> {
    let (space, piece) = (space.clone(), piece.clone());
    let _turn = app.user_queues.wait(rights).await;
    app.database.transact(move |tx| question(tx, &space, &piece, after)).await
}

/// The next page of a whole scope.
///
/// # Errors
/// The database's.
pub(super) async fn first_page<S: Site>(
    app: &App<S>,
    rights: Rights,
    space: &Space,
    (scope, after): (StageScope, u64),
) -> Result<Vec<Transfer>, ApiError> {
    let mut found: Vec<Transfer> = Vec::new();
    for piece in of(scope) {
        found.append(&mut page(app, rights, space, (&piece, after), transfers::telling).await?);
        found.sort_by_key(|transfer| transfer.number);
        found.dedup_by_key(|transfer| transfer.number);
        found.truncate(PAGE);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_deep_paths_is_cut_where_it_would_take_long() {
        let deep = "a/".repeat(600);
        let files = |paths: &[&str]| StageScope::Files(paths.iter().map(|path| (*path).to_owned()).collect());
        let pieces = of(files(&[&deep, "a", &deep, "b"]));
        assert_eq!(pieces, [files(&[&deep, "a"]), files(&[&deep, "b"])]);
        assert_eq!(of(files(&["x"; 3000])).len(), 3);
        assert_eq!(of(StageScope::All), [StageScope::All]);
    }
}
