//! The objects of a fragment that is lost, as its mirror has them: taken one by one, each of them as a whole or not at
//! all.
//!
//! **Invariant:** an object that the mirror has not as it was sealed, or does not have although the home knows for
//! certain how long it was, or is noted there to lack what was answered, is told to be lost; nothing of it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use model::stripe::Layout;
use model::{Ino, NodeName};
use rustix::io::Errno;
use wire::data::message::UNKNOWN_BYTES;
use wire::data::{PAYLOAD_BYTES_MAX, Reply, Request};

use crate::link::Place;
use crate::mirror::link::Link;
use crate::mirror::restore_error::RestoreError;
use crate::objects::Objects;

/// What is taken by one connection.
pub struct Taking {
    place: NodeName,
    link: Link,
    /// It has all that was answered, but for what it has noted to lack.
    is_proven: bool,
    /// The commit verifier that the lost fragment had, if its mirror has kept all that was answered under it.
    pub verifier: Option<u64>,
    /// Objects that the mirror has not as they were answered.
    lacking: BTreeSet<Ino>,
    /// How often the lost fragment had found it.
    pub meeting: u64,
}

/// A disk may fail to read for a moment: what it has is not given up by one error. Both must stay short, as nobody can
/// use the fragment so long.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Objects that the mirror cannot give, with the lengths that they should have at least.
type Bad = BTreeMap<Ino, (u64, io::Error)>;

/// Why an object is not here.
enum Failure {
    /// The mirror's node says that it does not have it as it was.
    Lost(io::Error),
    /// The mirror's node does not answer, or not as it should.
    Away(io::Error),
    /// Something here failed.
    Here(io::Error),
}

impl Taking {
    /// Finds the mirror, from which objects are to be taken.
    ///
    /// # Errors
    /// It is away, or lacks something that was answered.
    pub fn begin(place: &Place) -> Result<Taking, RestoreError> {
        let found = Taking::find(place)?;
        if found.is_proven { Ok(found) } else { Err(RestoreError::Lacking { node: place.node() }) }
    }

    /// The same, where nothing may be taken.
    ///
    /// # Errors
    /// It is away.
    pub fn find(place: &Place) -> Result<Taking, RestoreError> {
        let away = |cause| RestoreError::Away { node: place.node(), cause };
        let mut link = Link::reach(place, 0).map_err(away)?;
        // Whatever the lost fragment had sent is done, or never will be.
        link.ask(&Request::Fence, &[]).map_err(away)?;
        let mirror = link.ask(&Request::FindMirror, &[]).map_err(away)?;
        let meeting = link.ask(&Request::FindMeeting, &[]).map_err(away)?;
        let (Reply::Mirror { whole: is_proven, lacking, verifier, .. }, Reply::Meeting(meeting)) =
            (mirror, meeting)
        else {
            return Err(away(io::ErrorKind::InvalidData.into()));
        };
        // Whoever had written to those is told by its next sync.
        let verifier = verifier.filter(|_| lacking.is_empty());
        let lacking = lacking.into_iter().collect();
        Ok(Taking { place: place.node(), link, is_proven, verifier, lacking, meeting })
    }

    /// The numbers of all objects that the mirror has.
    ///
    /// # Errors
    /// It is away.
    pub fn list(&mut self) -> Result<Vec<Ino>, RestoreError> {
        self.link.list().map_err(|cause| RestoreError::Away { node: self.place.clone(), cause })
    }

    /// Takes all, and those that should be there, so long at least: `meant` says which objects these are, of files with
    /// this layout, if that is known. Returns those that are lost, with the lengths that they had.
    ///
    /// # Errors
    /// The mirror is away, or something here failed.
    pub fn all(
        &mut self,
        objects: &Objects,
        (layout, meant): (&Layout, Option<&[(Ino, u64)]>),
    ) -> Result<Vec<(Ino, u64)>, RestoreError> {
        let mut due: BTreeMap<Ino, u64> = certain(layout, meant.unwrap_or_default()).collect();
        // Those of an older copy of the fragment give their places, also to nothing.
        for ino in objects.list().map_err(|cause| self.here(cause))? {
            due.entry(ino).or_insert(0);
        }
        for ino in self.list()? {
            due.entry(ino).or_insert(0);
        }
        let mut lost = self.lose_lacking(objects, meant)?;
        due.retain(|ino, _| !self.lacking.contains(ino));
        let mut bad = self.each(objects, due)?;
        for pause in AGAIN_AFTER {
            if !bad.is_empty() {
                std::thread::sleep(pause);
                let due = bad.into_iter().map(|(ino, (length, _))| (ino, length)).collect();
                bad = self.each(objects, due)?;
            }
        }
        for (ino, (length, cause)) in bad {
            let node = &self.place;
            tracing::error!(%ino, ?node, %cause, "an object of a lost fragment is not whole in its mirror");
            objects.destroy(ino).map_err(|cause| self.here(cause))?;
            lost.push((ino, self.length(ino).max(length).max(1)));
        }
        Ok(lost)
    }

    /// Takes each of these. Returns those that the mirror cannot give, and why.
    fn each(&mut self, objects: &Objects, due: BTreeMap<Ino, u64>) -> Result<Bad, RestoreError> {
        let mut bad = Bad::new();
        for (ino, length) in due {
            match self.one(objects, ino, length) {
                Ok(()) => {}
                Err(Failure::Lost(cause)) => drop(bad.insert(ino, (length, cause))),
                Err(Failure::Away(cause)) => {
                    return Err(RestoreError::Away { node: self.place.clone(), cause });
                }
                Err(Failure::Here(cause)) => return Err(self.here(cause)),
            }
        }
        Ok(bad)
    }

    /// Drops those that the mirror lacks. Returns those of them that should be there, as [`Taking::all`].
    fn lose_lacking(
        &mut self,
        objects: &Objects,
        meant: Option<&[(Ino, u64)]>,
    ) -> Result<Vec<(Ino, u64)>, RestoreError> {
        let meant: Option<BTreeMap<Ino, u64>> = meant.map(|meant| meant.iter().copied().collect());
        let mut lost = Vec::new();
        for ino in self.lacking.clone() {
            objects.destroy(ino).map_err(|cause| self.here(cause))?;
            // One that no file has is not missed.
            let length = meant.as_ref().map_or(Some(UNKNOWN_BYTES), |meant| meant.get(&ino).copied());
            if let Some(length) = length {
                let node = &self.place;
                tracing::error!(
                    %ino,
                    ?node,
                    "an object of a lost fragment is older in its mirror, or not there"
                );
                lost.push((ino, length.max(self.length(ino))));
            }
        }
        Ok(lost)
    }

    fn here(&self, cause: io::Error) -> RestoreError {
        RestoreError::Here { node: self.place.clone(), cause }
    }

    /// How long the mirror says that an object is, or was, if it says so.
    fn length(&mut self, ino: Ino) -> u64 {
        match self.link.ask(&Request::Measure { ino }, &[]) {
            Ok(Reply::Object { size, .. }) => size,
            _ => 0,
        }
    }

    fn one(&mut self, objects: &Objects, ino: Ino, length: u64) -> Result<(), Failure> {
        // An earlier try may have begun it.
        objects.destroy(ino).map_err(Failure::Here)?;
        let found = self.ask(&Request::Measure { ino })?;
        let Reply::Object { size, mtime, .. } = found else { return Err(unexpected()) };
        if size < length {
            let cause = format!("it has {size} bytes there, and should have {length}");
            return Err(Failure::Lost(io::Error::other(cause)));
        }
        if size > 0 {
            objects.resize(ino, size).map_err(Failure::Here)?;
        }
        let mut at = 0;
        while at < size {
            let Reply::Range(Some((start, end))) = self.ask(&Request::NextData { ino, offset: at })? else {
                break;
            };
            self.part(objects, ino, start..end.min(size))?;
            at = end;
        }
        // One that was cut off below the node is seen to be when its end is read.
        self.read(ino, size, 1)?;
        objects.set_times(ino, None, Some(mtime)).map_err(Failure::Here)
    }

    fn part(&mut self, objects: &Objects, ino: Ino, part: std::ops::Range<u64>) -> Result<(), Failure> {
        let mut at = part.start;
        while at < part.end {
            let len = (part.end - at).min(PAYLOAD_BYTES_MAX as u64);
            let bytes = self.read(ino, at, u32::try_from(len).expect("a payload is shorter than 4 GiB"))?;
            if bytes.is_empty() {
                return Err(Failure::Lost(io::ErrorKind::UnexpectedEof.into()));
            }
            objects.write(ino, at, &bytes).map_err(Failure::Here)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        let answer = self.link.ask(request, &[]);
        answer.map_err(|cause| self.failure(cause))
    }

    fn read(&mut self, ino: Ino, at: u64, len: u32) -> Result<Vec<u8>, Failure> {
        let read = self.link.read(ino, at, len);
        read.map_err(|cause| self.failure(cause))
    }

    /// EIO of a node that answers is about the object.
    fn failure(&self, cause: io::Error) -> Failure {
        let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
        let errno = inner.unwrap_or(&cause).raw_os_error();
        let is_of_object = errno == Some(Errno::IO.raw_os_error()) && !self.link.is_broken();
        if is_of_object { Failure::Lost(cause) } else { Failure::Away(cause) }
    }
}

fn unexpected() -> Failure {
    Failure::Away(io::ErrorKind::InvalidData.into())
}

/// Those of `meant` of which the home knows for certain how long their objects were: a file that nobody was writing may
/// have holes everywhere but at its end.
fn certain(layout: &Layout, meant: &[(Ino, u64)]) -> impl Iterator<Item = (Ino, u64)> {
    let width = layout.width;
    let stripe = u64::from(layout.stripe_size_bytes);
    let has_end = move |length: u64| width == 1 || !length.is_multiple_of(stripe);
    meant.iter().copied().filter(move |(_, length)| *length < UNKNOWN_BYTES && has_end(*length))
}
