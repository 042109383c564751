//! How a node is reached.

use model::NodeName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::ApiError;

/// Who can reach nodes: repeats a call until the node answers, or is given up.
pub trait Caller: Send + Sync {
    /// `GET path`.
    ///
    /// # Errors
    /// The node's, or it stays away; so for all that follow.
    fn get<R: DeserializeOwned + Send>(
        &self,
        node: &NodeName,
        path: &str,
    ) -> impl Future<Output = Result<R, ApiError>> + Send;

    /// `PUT path`.
    ///
    /// # Errors
    /// The node's.
    fn put<R: DeserializeOwned + Send>(
        &self,
        node: &NodeName,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> impl Future<Output = Result<R, ApiError>> + Send;

    /// `DELETE path`.
    ///
    /// # Errors
    /// The node's.
    fn delete(&self, node: &NodeName, path: &str) -> impl Future<Output = Result<(), ApiError>> + Send;
}
