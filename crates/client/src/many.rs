//! Many files at once, and the namespace as a whole: what goes to one node is one round trip, however many files it
//! concerns.

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::{Loss, LossRequest};
use wire::data::room::MetadataRoom;
use wire::data::{Attr, PAYLOAD_BYTES_MAX, Reply, Request};

use super::{Ask, Client, LostByDisk, Operations, Result, Survey, Usage, inode_of};

impl Operations for Client {
    fn open_all(&self, inos: &[Ino]) -> Vec<Result<Attr>> {
        let replies = self.ask_home_all(inos.iter().map(|ino| Request::Open { ino: *ino, write: false }));
        let open = |reply: Result<Reply>| self.with_live_size(inode_of(reply?)?);
        replies.into_iter().map(open).collect()
    }

    fn survey(&self, inos: &[Ino]) -> Vec<Survey> {
        let both = |ino: &Ino| [Request::GetAttr { ino: *ino }, Request::ListXattr { ino: *ino }];
        let mut replies = self.ask_home_all(inos.iter().flat_map(both)).into_iter();
        let mut next = || replies.next().expect("an answer for each request");
        let one = |_| {
            let attr = next().and_then(inode_of).and_then(|inode| self.with_live_size(inode));
            let names = next().and_then(|reply| match reply {
                Reply::Names(names) => Ok(names),
                _ => Err(Errno::PROTO),
            });
            (attr, names)
        };
        inos.iter().map(one).collect()
    }

    fn read_all(&self, files: &[(Ino, usize)]) -> Vec<Option<Vec<u8>>> {
        let mut contents: Vec<Vec<u8>> = files.iter().map(|(_, length)| vec![0; *length]).collect();
        let mut asks = Vec::with_capacity(files.len());
        let mut places = Vec::with_capacity(files.len());
        for (place, (&(ino, length), into)) in files.iter().zip(&mut contents).enumerate() {
            let mut pieces = self.layout.pieces(ino, 0, length as u64);
            let (Some(piece), None) = (pieces.next(), pieces.next()) else { continue };
            let Ok(len) = u32::try_from(length.min(PAYLOAD_BYTES_MAX)) else { continue };
            let request = Request::Read { ino, offset: piece.object_offset, len };
            asks.push(Ask { fragment: piece.fragment, id: self.id(), request, payload: &[], into });
            places.push(place);
        }
        let answers = self.nodes.exchange(&mut asks);
        drop(asks);
        let mut read: Vec<Option<Vec<u8>>> = files.iter().map(|_| None).collect();
        for (place, answer) in places.into_iter().zip(answers) {
            if let Ok((Reply::Data, length)) = answer {
                let mut bytes = std::mem::take(&mut contents[place]);
                bytes.truncate(length);
                read[place] = Some(bytes);
            }
        }
        read
    }

    fn fsync_many(&self, inos: &[Ino]) -> Result<()> {
        self.sync_all(inos, self.syncs_of_many(inos))?;
        self.nodes.commits().check(inos)
    }

    fn flush(&self, inos: &[Ino]) -> Result<Vec<LostByDisk>> {
        let syncs = self.syncs_of_many(inos);
        let fragments: Vec<FragmentIndex> = syncs.iter().map(|(fragment, _)| *fragment).collect();
        let answers = self.answers(syncs.into_iter()).into_iter().map(|answer| answer.map(drop));
        let lost = losses(fragments.into_iter().zip(answers))?;
        match inos {
            _ if lost.is_empty() => Ok(Vec::new()),
            [ino] => {
                let untold = lost.iter().find(|(_, errno)| *errno == Errno::UCLEAN);
                Ok(vec![LostByDisk { ino: *ino, untold: untold.map(|(fragment, _)| *fragment) }])
            }
            // Nothing is said of those that come after it.
            _ => {
                let each: Result<Vec<_>> = inos.iter().map(|ino| self.flush(&[*ino])).collect();
                Ok(each?.into_iter().flatten().collect())
            }
        }
    }

    fn usage(&self) -> Result<Usage> {
        // Files that were removed hold their space until they are closed.
        self.send_held()?;
        let replies = self
            .ask_each(FragmentIndex::all(self.layout.fragments).map(|fragment| (fragment, Request::Usage)))?;
        let mut sum = Usage::default();
        for reply in replies {
            let Reply::Usage { capacity, used, inodes } = reply else { return Err(Errno::PROTO) };
            sum = Usage {
                capacity: sum.capacity + capacity,
                used: sum.used + used,
                inodes: sum.inodes + inodes,
                ..sum
            };
        }
        sum.metadata = match self.home(&MetadataRoom::question()) {
            Ok(Reply::Bytes(bytes)) => MetadataRoom::from_bytes(&bytes),
            // A home of an older release does not know that, and a stage is not told.
            Err(Errno::STALE) => None,
            Ok(_) => return Err(Errno::PROTO),
            Err(error) => return Err(error),
        };
        Ok(sum)
    }

    fn unverified(&self) -> Result<Vec<(Ino, FragmentIndex)>> {
        let mut all: Vec<(Ino, FragmentIndex)> = Vec::new();
        for fragment in FragmentIndex::all(self.layout.fragments) {
            let mut after = Ino(0);
            loop {
                let reply = self.ask(fragment, &Request::ListUnverified { after }, &[])?;
                let Reply::Objects(page) = reply else { return Err(Errno::PROTO) };
                let Some((last, _)) = page.last() else { break };
                after = *last;
                all.extend(page.iter().map(|(ino, _)| (*ino, fragment)));
            }
        }
        Ok(all)
    }

    fn lost_writes(&self) -> Result<Vec<Loss>> {
        // Before it is connected nobody knows whether the home understands more.
        self.home(&Request::Ping)?;
        let (mut all, mut after): (Vec<Loss>, u64) = (Vec::new(), 0);
        while self.nodes.commits().is_heard() {
            let list = LossRequest::List { after, of: None, look: after == 0 };
            let Reply::Losses(page) = self.home(&Request::Losses(list))? else { return Err(Errno::PROTO) };
            let last = page.last().map_or(0, |loss| loss.number);
            all.extend(page);
            if last <= after {
                break;
            }
            after = last;
        }
        all.retain(|loss| !loss.told);
        Ok(all)
    }
}

/// Those of the fragments that have lost something, and how they say so. What one has lost does not say that another
/// answers, or that its home knows.
fn losses(answers: impl Iterator<Item = (FragmentIndex, Result<()>)>) -> Result<Vec<(FragmentIndex, Errno)>> {
    let failed: Vec<_> = answers.filter_map(|(fragment, answer)| Some((fragment, answer.err()?))).collect();
    let is_loss = |errno: Errno| matches!(errno, Errno::REMOTEIO | Errno::UCLEAN);
    match failed.iter().find(|(_, errno)| !is_loss(*errno)) {
        Some((_, errno)) => Err(*errno),
        None => Ok(failed),
    }
}

impl Client {
    /// What makes the contents of files survive.
    fn syncs_of_many(&self, inos: &[Ino]) -> Vec<(FragmentIndex, Request)> {
        let on = |fragment: FragmentIndex| -> Vec<Ino> {
            inos.iter().copied().filter(|ino| self.layout.fragments_of(*ino).any(|f| f == fragment)).collect()
        };
        let objects = FragmentIndex::all(self.layout.fragments).map(|fragment| (fragment, on(fragment)));
        let objects = objects.filter(|(_, inos)| !inos.is_empty());
        objects.map(|(fragment, inos)| (fragment, Request::SyncMany { inos })).collect()
    }

    /// Asks the home shard all of this, once it knows every loss, and every close that is held.
    fn ask_home_all(&self, requests: impl Iterator<Item = Request>) -> Vec<Result<Reply>> {
        if let Err(errno) = self.tell_doubts() {
            return requests.map(|_| Err(errno)).collect();
        }
        let held = self.files().take_held();
        let closes = (!held.is_empty()).then(|| Request::Close { handles: held.clone() });
        let fragment = self.home;
        let ask = |request| Ask { fragment, id: self.id(), request, payload: &[], into: &mut [] };
        let mut asks: Vec<Ask<'_>> = closes.into_iter().chain(requests).map(ask).collect();
        let answers = self.nodes.exchange(&mut asks);
        let mut replies = answers.into_iter().map(|answer| answer.map(|(reply, _)| reply));
        if !held.is_empty() {
            // As where one request takes them along.
            let _settled = self.settled(&held, replies.next().expect("an answer for each request"));
        }
        replies.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_disk_has_lost_hides_nothing_of_another() {
        let of = |answers: &[Result<()>]| losses((0..).map(FragmentIndex).zip(answers.iter().copied()));
        let (told, unheard) = (Err(Errno::REMOTEIO), Err(Errno::AGAIN));
        assert_eq!(of(&[Ok(()), told, unheard]), Err(Errno::AGAIN));
        assert_eq!(of(&[told, Err(Errno::IO)]), Err(Errno::IO));
        assert_eq!(of(&[Ok(()), told]), Ok(vec![(FragmentIndex(1), Errno::REMOTEIO)]));
    }
}
