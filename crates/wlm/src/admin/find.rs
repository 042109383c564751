//! From the numbers that people see to the tokens that control knows.

use model::Token;
use wire::control::Objects;

use super::AdminError;
use api::control::Control;

/// The token of session `id`.
pub(super) fn session(control: &Control, id: u64) -> Result<Token, AdminError> {
    let objects: Objects = control.get("/v1/objects")?;
    token(&objects, id).ok_or(AdminError::Missing { kind: "session", id })
}

/// The token of the session of instance `id`.
pub(super) fn session_of_instance(control: &Control, id: u64) -> Result<Token, AdminError> {
    let objects: Objects = control.get("/v1/objects")?;
    let instance = objects.instances.iter().find(|instance| instance.id == id);
    instance
        .and_then(|instance| token(&objects, instance.session))
        .ok_or(AdminError::Missing { kind: "instance", id })
}

fn token(objects: &Objects, id: u64) -> Option<Token> {
    objects.sessions.iter().find(|session| session.id == id).map(|session| session.token.clone())
}
