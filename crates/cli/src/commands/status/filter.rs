//! Which part of the status is asked for.

use std::collections::BTreeSet;

use wire::control::{SessionStatus, Status};

use crate::arguments;
use crate::failure::Failure;
use crate::identity;

/// What is left of `status`: the buffers that are asked for, and where something is asked for, the pools and nodes that
/// are named or have to do with them.
///
/// # Errors
/// There is no buffer, user, pool or node of the name that is asked for.
pub fn of(status: Status, arguments: &arguments::Status) -> Result<Status, Failure> {
    let arguments::Status { token, user, pool, node, .. } = arguments;
    if token.is_none() && user.is_none() && pool.is_none() && node.is_none() {
        return Ok(status);
    }
    check_named(&status, arguments)?;
    let Status { mut sessions, mut pools, mut nodes } = status;
    sessions.retain(|session| is_meant(session, arguments));
    if let Some(token) = token.as_ref().filter(|_| sessions.is_empty()) {
        return Err(Failure::no_buffer(token));
    }
    let used = |names: &mut dyn FnMut(&SessionStatus) -> Vec<String>, named: Option<&String>| {
        sessions.iter().flat_map(names).chain(named.cloned()).collect::<BTreeSet<String>>()
    };
    let pools_used =
        used(&mut |session| pool_of(session).map(str::to_owned).into_iter().collect(), pool.as_ref());
    let nodes_used = used(&mut |session| nodes_of(session).map(str::to_owned).collect(), node.as_ref());
    pools.retain(|pool| pools_used.contains(&pool.name));
    nodes.retain(|node| nodes_used.contains(node.name.as_str()));
    Ok(Status { sessions, pools, nodes })
}

/// Refuses names of nothing: who misspells one must not read that there are no buffers.
fn check_named(status: &Status, arguments: &arguments::Status) -> Result<(), Failure> {
    let arguments::Status { user, pool, node, .. } = arguments;
    let missing = |what: &str, name: &str, advice: &str| {
        Err(Failure::no_input(format!("there is no {what} {name}"), advice.to_owned()))
    };
    let seen = |of: &dyn Fn(&SessionStatus) -> bool| status.sessions.iter().any(of);
    if let Some(name) = user {
        let is_of = |session: &SessionStatus| is_of(session, name);
        if name.parse::<u32>().is_err() && !seen(&is_of) && daemon::config::uid_of(name).is_err() {
            return missing("user", name, "check the spelling, or give the number");
        }
    }
    if let Some(name) = pool {
        let is_in = |session: &SessionStatus| pool_of(session) == Some(name);
        if !seen(&is_in) && !status.pools.iter().any(|pool| pool.name == *name) {
            return missing("pool", name, "`forebay status` lists the pools");
        }
    }
    if let Some(name) = node {
        let is_on = |session: &SessionStatus| nodes_of(session).any(|node| node == name);
        if !seen(&is_on) && !status.nodes.iter().any(|node| node.name.as_str() == name) {
            return missing("node", name, "`forebay status` lists the nodes");
        }
    }
    Ok(())
}

fn is_of(session: &SessionStatus, user: &str) -> bool {
    let uid = session.owner.uid;
    uid.to_string() == user || identity::name_of(uid) == user
}

fn is_meant(session: &SessionStatus, arguments: &arguments::Status) -> bool {
    let arguments::Status { token, user, pool, node, .. } = arguments;
    token.as_ref().is_none_or(|token| *token == session.token)
        && user.as_ref().is_none_or(|user| is_of(session, user))
        && pool.as_ref().is_none_or(|pool| pool_of(session) == Some(pool.as_str()))
        && node.as_ref().is_none_or(|node| nodes_of(session).any(|name| name == node))
}

fn pool_of(session: &SessionStatus) -> Option<&str> {
    session.instance.as_ref().map(|instance| instance.pool.as_str())
}

fn nodes_of(session: &SessionStatus) -> impl Iterator<Item = &str> {
    let parts = session.instance.iter().flat_map(|instance| &instance.nodes);
    let mounts = session.activations.iter().map(|activation| &activation.node);
    parts.chain(mounts).map(|name| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use model::Token;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let asked = |of: &dyn Fn(&mut arguments::Status)| {
            let mut arguments = arguments::Status {
                json: false,
                watch: false,
                token: None,
                user: None,
                pool: None,
                node: None,
            };
            of(&mut arguments);
            is_meant(&fixtures::session(), &arguments)
        };
        assert!(asked(&|_| {}) && asked(&|it| it.user = Some("1000".into())));
        assert!(asked(&|it| (it.pool, it.node) = (Some("local".into()), Some("n0".into()))));
        assert!(!asked(&|it| it.token = Some(Token::literal("4"))));
        assert!(!asked(&|it| it.user = Some("root".into())));
        assert!(!asked(&|it| it.pool = Some("other".into())) && !asked(&|it| it.node = Some("n1".into())));
    }
}
