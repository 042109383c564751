//! What a client that works for a user asks of objects: with the grant that it was given when it opened the file.

use std::borrow::Cow;

use wire::data::Request;
use wire::data::connection::encode;
use wire::data::message::Asker;

use super::Nodes;

impl Nodes {
    /// Whether the client works for a user, whose permissions the home shard checks.
    pub fn needs_grants(&self) -> bool {
        self.credential.needs_grants()
    }

    /// The request as it is sent. Without a grant that covers it, as it is: the node refuses it.
    pub(super) fn presented<'r>(&self, request: &'r Request) -> Cow<'r, Request> {
        if !self.needs_grants() {
            return Cow::Borrowed(request);
        }
        let Asker::Opener { ino, write } = request.asker() else { return Cow::Borrowed(request) };
        match self.files().grant(ino, write) {
            Some(grant) => Cow::Owned(Request::Granted { grant, request: encode(request) }),
            None => Cow::Borrowed(request),
        }
    }
}
