//! The places of those who have not proven anything yet.

use std::io;
use std::sync::{Arc, PoisonError};

use model::crowd::{Crowd, Peer};
use rustix::net::sockopt;
use wire::data::Stream;

use super::Places;
use crate::seldom::Seldom;

/// All of them.
#[derive(Debug)]
pub(super) struct Strangers {
    crowd: Crowd<Peer, Arc<Stream>>,
    max: usize,
    closed: Seldom,
}

impl Strangers {
    /// So many at once.
    pub(super) fn up_to(max: usize) -> Strangers {
        Strangers { crowd: Crowd::default(), max, closed: Seldom::default() }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.crowd.len()
    }
}

/// One of them, until it is dropped: it has proven something, or is gone.
pub(crate) struct Stranger {
    places: Arc<Places>,
    peer: Peer,
    turn: u64,
    stream: Arc<Stream>,
}

impl Stranger {
    /// To end the connection by.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut strangers = self.places.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        strangers.crowd.leave(self.peer, self.turn);
    }
}

impl Places {
    /// A place for a connection of which nothing is known yet.
    ///
    /// # Errors
    /// The errno of what the system refused: the other end may be gone.
    pub(crate) fn stranger(self: &Arc<Places>, stream: &Stream) -> io::Result<Stranger> {
        let (peer, stream) = (peer_of(stream)?, Arc::new(stream.try_clone()?));
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.crowd.len() >= strangers.max
            && let Some((whose, oldest)) = strangers.crowd.make_room(peer)
        {
            oldest.shutdown();
            if let Some(times) = strangers.closed.due() {
                tracing::warn!(
                    ?whose,
                    limit = strangers.max,
                    times,
                    "closed connections that had proven nothing yet, as more of them came"
                );
            }
        }
        let turn = strangers.crowd.enter(peer, stream.clone());
        drop(strangers);
        Ok(Stranger { places: self.clone(), peer, turn, stream })
    }
}

fn peer_of(stream: &Stream) -> io::Result<Peer> {
    Ok(match stream.peer_ip()? {
        Some(ip) => Peer::at(ip),
        None => Peer::User(sockopt::socket_peercred(stream)?.uid.as_raw()),
    })
}
