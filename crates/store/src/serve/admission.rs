//! Who is let in: what a connection is for, and whether it may be.
//!
//! **Invariant:** no connection is admitted of a fragment that another node has taken the place of, nor to one.

use std::sync::Arc;

use wire::data::Stream;
use wire::data::credential::Identity;
use wire::data::hello::{Claim, Refusal};
use wire::data::keys::Keys;
use wire::data::member::{Member, Role};

use super::{Served, Worker};
use crate::copies::{self, Copies};
use crate::fragment::{Fragment, NamespacePart};
use crate::server::Server;
use crate::server::places::{Places, Whose};

/// What a connection is for.
pub(super) enum Asked {
    Namespace(Arc<Fragment>, NamespacePart, Option<Arc<Copies>>),
    Copies(Option<Arc<Fragment>>, Arc<Copies>, Member),
}

/// What somebody claims to have the key of, and the keys that are taken.
pub(super) fn find(server: &Server, claim: &Claim) -> Result<(Keys, Asked), Refusal> {
    if server.is_replaced(&claim.instance) {
        return Err(Refusal::Moved);
    }
    let (member, fragment) = (Member::of(claim.session), server.fragment(&claim.instance));
    let copies = server.copies(&claim.instance).filter(|copies| copies.index() == claim.fragment);
    if let Some(home) = member.filter(|member| member.role == Role::Copying) {
        let copies = copies.ok_or(Refusal::NoSuchFragment)?;
        return Ok((copies.keys().clone(), Asked::Copies(fragment, copies, home)));
    }
    let fragment = fragment.ok_or(Refusal::NoSuchFragment)?;
    let mut namespace = fragment.namespace(claim.namespace).ok_or(Refusal::NoSuchFragment)?;
    if fragment.spec().index != claim.fragment {
        return Err(Refusal::NoSuchFragment);
    }
    if let Some(primary) = member.filter(|member| member.role == Role::Mirroring) {
        let keeps = fragment.spec().keeps_mirror_of(primary.fragment);
        let replica = namespace.replica.take().filter(|_| keeps).ok_or(Refusal::NoSuchFragment)?;
        let objects = replica.objects().clone();
        namespace = NamespacePart { objects, shard: None, replica: Some(replica), ..namespace };
    } else {
        namespace.replica = None;
    }
    Ok((fragment.keys().clone(), Asked::Namespace(fragment, namespace, copies)))
}

/// Notes the connection of somebody who has the key, unless it was closed meanwhile what he asks for, or another has
/// taken his place.
pub(super) fn admit(
    places: &Arc<Places>,
    claim: &Claim,
    identity: Identity,
    asked: Asked,
    handle: &Arc<Stream>,
) -> Result<Served, Refusal> {
    // Who only has a credential is no fragment, whatever session it says that it is.
    if Member::of(claim.session).is_some() && identity != Identity::Member {
        return Err(Refusal::WrongKey);
    }
    let place = places.place(&claim.instance, whose(claim, &identity), handle).ok_or(Refusal::Busy)?;
    let handle = handle.clone();
    match asked {
        Asked::Copies(fragment, copies, home) => {
            let number = copies.terms().hear(home, || copies.connected(handle, home))?;
            end_former(home, fragment.as_deref(), Some(&copies));
            let worker = copies::connection::Worker::new(copies, claim.namespace, home, number);
            Ok(Served::Home(worker, place))
        }
        Asked::Namespace(fragment, namespace, copies) => {
            let add = || fragment.connections().add(handle, claim.session, claim.namespace);
            let number = match Member::of(claim.session) {
                None => add().ok_or_else(|| closed(&fragment))?,
                Some(member) => {
                    let number = fragment.terms().hear(member, add)?;
                    end_former(member, Some(&fragment), copies.as_deref());
                    number
                }
            };
            namespace.shard.iter().for_each(|shard| shard.connected(claim.session));
            Ok(Served::Client(Worker::new(fragment, namespace, (claim, identity), (place, number))))
        }
    }
}

fn whose(claim: &Claim, identity: &Identity) -> Whose {
    match identity {
        Identity::Member => Whose::Nodes,
        Identity::Kernel | Identity::SquashingKernel => Whose::Session(claim.session),
        Identity::User(user) => Whose::User(user.uid),
    }
}

/// Why one that was there a moment ago does not answer.
fn closed(fragment: &Fragment) -> Refusal {
    if fragment.terms().is_replaced() { Refusal::Moved } else { Refusal::NoSuchFragment }
}

/// Ends what those have open whose place this one has taken.
fn end_former(next: Member, fragment: Option<&Fragment>, copies: Option<&Copies>) {
    fragment.iter().for_each(|fragment| fragment.connections().end_former(next));
    copies.iter().for_each(|copies| copies.end_former(next));
}
