//! Syncs of objects that failed, until every session that syncs the object has heard of it.
//!
//! The kernel tells an error of writing back once for each descriptor, and this node has one for all its clients. After
//! the error the pages count as clean: the next sync succeeds although the bytes are lost. So each session is told, at
//! its own next sync of the object, once for each failure. A session that wrote nothing is told as well: the object did
//! lose bytes. A sync that is asked again, because its answer was lost, is told the same again.
//!
//! **Invariant:** memory for objects that failed only; of a sound disk nothing is kept.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard};

use model::{Ino, SessionId};
use rustix::io::Errno;

use crate::errno::errno_of;

/// A session of a client.
type Session = SessionId;

/// The failures of one namespace's objects.
#[derive(Debug, Default)]
pub struct SyncErrors {
    objects: Mutex<HashMap<Ino, Failure>>,
}

#[derive(Debug)]
struct Failure {
    errno: Errno,
    /// How many there were.
    count: u64,
    /// How many of them the home of the namespace knows.
    at_home: u64,
    /// How many of them somebody takes as they are.
    accepted: u64,
    /// What each session was told.
    told: HashMap<Session, Told>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    /// How many of the failures.
    count: u64,
    /// By the answer to which request.
    request: u64,
}

impl SyncErrors {
    /// A sync of the object failed.
    pub fn failed(&self, ino: Ino, error: &io::Error) {
        let mut objects = self.lock();
        let errno = errno_of(error);
        let failure = objects.entry(ino).or_insert_with(|| Failure {
            errno,
            count: 0,
            at_home: 0,
            accepted: 0,
            told: HashMap::new(),
        });
        failure.errno = errno;
        failure.count += 1;
    }

    /// How often each of these objects failed, of those that did.
    pub fn counted(&self, inos: &[Ino]) -> Vec<(Ino, u64)> {
        let objects = self.lock();
        inos.iter().filter_map(|ino| Some((*ino, objects.get(ino)?.count))).collect()
    }

    /// The home of the namespace knows of so many failures of each of these objects.
    pub fn known_at_home(&self, counted: &[(Ino, u64)]) {
        let mut objects = self.lock();
        for (ino, count) in counted {
            if let Some(failure) = objects.get_mut(ino) {
                failure.at_home = failure.at_home.max(*count);
            }
        }
    }

    /// Whatever failed is taken as it is.
    pub fn accept(&self) {
        self.lock().values_mut().for_each(|failure| failure.accepted = failure.count);
    }

    /// Whether the session is still to hear of a failure.
    ///
    /// # Errors
    /// It is: EAGAIN while the home of the namespace does not know of all that was lost, EUCLEAN where no session was
    /// told of the last of it, else EREMOTEIO.
    pub fn owed(&self, ino: Ino, session: Session) -> io::Result<()> {
        match self.lock().get(&ino).filter(|failure| failure.is_owed(session)) {
            None => Ok(()),
            Some(failure) if failure.at_home < failure.count => Err(Errno::AGAIN.into()),
            Some(failure) if failure.is_told() => Err(Errno::REMOTEIO.into()),
            Some(_) => Err(Errno::UCLEAN.into()),
        }
    }

    /// Tells the session of it: it has heard of it then, by the answer to this request of it.
    ///
    /// # Errors
    /// The failure's errno.
    pub fn tell(&self, ino: Ino, session: Session, request: u64) -> io::Result<()> {
        match self.lock().get_mut(&ino) {
            Some(failure) if failure.is_owed(session) || failure.was_told_by(session, request) => {
                failure.told.insert(session, Told { count: failure.count, request });
                Err(failure.errno.into())
            }
            _ => Ok(()),
        }
    }

    /// The object is gone, and with it whatever it lost.
    pub fn forget(&self, ino: Ino) {
        self.lock().remove(&ino);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Failure>> {
        self.objects.lock().expect("no thread panics while it holds the failures of syncs")
    }
}

impl Failure {
    fn is_owed(&self, session: Session) -> bool {
        self.told.get(&session).is_none_or(|told| told.count < self.count)
    }

    /// Whether anybody has heard of the last of them.
    fn is_told(&self) -> bool {
        self.accepted == self.count || self.told.values().any(|told| told.count == self.count)
    }

    /// Whether this request is asked again: the session has not heard its answer.
    fn was_told_by(&self, session: Session, request: u64) -> bool {
        self.told.get(&session).is_some_and(|told| told.request == request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_home_does_not_know_yet_is_told_apart() {
        let (errors, a) = (SyncErrors::default(), [1; 16].into());
        let owed = || errors.owed(Ino(7), a).map_err(|error| errno_of(&error));
        errors.failed(Ino(7), &Errno::IO.into());
        assert_eq!(owed(), Err(Errno::AGAIN));
        let counted = errors.counted(&[Ino(7), Ino(8)]);
        errors.failed(Ino(7), &Errno::IO.into());
        errors.known_at_home(&counted);
        assert_eq!(owed(), Err(Errno::AGAIN), "it has heard of the first failure alone");
        errors.known_at_home(&errors.counted(&[Ino(7)]));
        assert_eq!(owed(), Err(Errno::UCLEAN), "no program has heard of it");
        errors.tell(Ino(7), [2; 16].into(), 1).unwrap_err();
        assert_eq!(owed(), Err(Errno::REMOTEIO));
        errors.failed(Ino(7), &Errno::IO.into());
        errors.known_at_home(&errors.counted(&[Ino(7)]));
        assert_eq!(owed(), Err(Errno::UCLEAN), "nor of the third");
        errors.accept();
        assert_eq!(owed(), Err(Errno::REMOTEIO));
    }

    #[test]
    fn each_session_hears_of_each_failure_once() {
        let (errors, full) = (SyncErrors::default(), io::Error::from(io::ErrorKind::StorageFull));
        let (a, b) = ([1; 16].into(), [2; 16].into());
        assert!(errors.tell(Ino(7), a, 1).is_ok());
        let full =
            full.raw_os_error().map_or_else(|| io::Error::from(Errno::NOSPC), io::Error::from_raw_os_error);
        errors.failed(Ino(7), &full);
        assert!(errors.owed(Ino(7), a).is_err(), "asking is not being told");
        assert_eq!(errors.tell(Ino(7), a, 2).unwrap_err().raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert!(errors.tell(Ino(7), a, 3).is_ok() && errors.tell(Ino(8), a, 4).is_ok());
        assert!(errors.tell(Ino(7), b, 1).is_err(), "the other has not heard of it");
        errors.failed(Ino(7), &full);
        assert!(
            errors.tell(Ino(7), b, 2).is_err() && errors.tell(Ino(7), a, 5).is_err(),
            "it is another failure"
        );
    }

    #[test]
    fn a_sync_that_is_asked_again_is_told_of_the_failure_again() {
        let (errors, a) = (SyncErrors::default(), [1; 16].into());
        errors.failed(Ino(7), &Errno::NOSPC.into());
        assert!(errors.tell(Ino(7), a, 5).is_err());
        assert!(errors.tell(Ino(7), a, 5).is_err(), "the answer was lost with its connection");
        assert!(errors.tell(Ino(7), a, 6).is_ok(), "another sync is not told of what the session has heard");
    }
}
