//! Who asks the home shard for something.

use model::SessionId;
use wire::data::Request;
use wire::data::credential::User;

/// Who asks, and by which request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The client.
    pub session: SessionId,
    /// The request's id.
    pub id: u64,
    /// Whom it works for, and what it asks; `None`: a client whose kernel, or node, checks by itself.
    pub(super) asked: Option<Asked<'a>>,
}

impl<'a> Caller<'a> {
    /// A client that may do everything.
    pub fn new(session: SessionId, id: u64) -> Caller<'a> {
        Caller { session, id, asked: None }
    }

    /// A client that works for a user.
    pub fn of_user(session: SessionId, id: u64, asked: Asked<'a>) -> Caller<'a> {
        Caller { session, id, asked: Some(asked) }
    }

    /// The same client, asking for something else.
    pub fn asking(self, request: &'a Request) -> Caller<'a> {
        Caller { asked: self.asked.map(|asked| Asked { request, ..asked }), ..self }
    }

    /// Whether it works for a user.
    pub fn is_checked(&self) -> bool {
        self.asked.is_some()
    }
}

/// A user who asks for something.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who.
    pub user: &'a User,
    /// What.
    pub request: &'a Request,
}
