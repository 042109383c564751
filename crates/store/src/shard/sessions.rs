//! Who has which file open, and which requests were done already.
//!
//! A session is one client process. It outlives its connections: a client that lost them comes back within the grace
//! period and still has its files open. What is here is in memory only; after a restart of the shard clients say again
//! what they have open, and the log says again which requests were done.

mod held;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use model::{Ino, SessionId};
use wire::data::Time;

/// How many answered requests are remembered for each session: many more than a client can have in flight, as one of
/// them may be slow to hear its answer while others go on.
const ANSWERS_MAX: usize = 1024;

/// How many more are remembered from before the session lost connections: one of those may be asked again at any time,
/// however much is asked meanwhile.
const KEPT_MAX: usize = 4096;

/// The most files that one session has open: it must be able to name them in one message when the shard was restarted.
const OPEN_FILES_MAX: usize = 65_536;

/// How a request that changed something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to tell.
    Done,
    /// The answer is this inode.
    Inode(Ino),
    /// The answer is this place in a file.
    Offset(u64),
}

/// Every session of one namespace.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: HashMap<SessionId, Session>,
    files: HashMap<Ino, OpenFile, RandomState>,
    /// Those that held something before the shard was restarted, and have not said yet what.
    awaited: HashSet<SessionId>,
}

#[derive(Debug, Default)]
struct Session {
    /// The log says that it may hold something.
    noted: bool,
    connections: usize,
    /// When the last connection went; `None` while there is one, or before the first after a restart.
    lost: Option<Instant>,
    /// inode -> (readers, writers).
    opens: HashMap<Ino, (u32, u32)>,
    answers: HashMap<u64, Outcome, RandomState>,
    /// The requests of `answers` since connections were lost last, in order.
    order: VecDeque<u64>,
    /// Those before.
    kept: VecDeque<u64>,
    /// The requests, of those in `answers`, whose handle is among the opens: asked again, they open nothing more.
    counted: HashSet<u64>,
    /// The requests, of those in `answers`, that did no more than open or close handles.
    handles: HashSet<u64>,
}

/// What a writer says when it closes, as far as it still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Furthest byte that it wrote.
    pub end: u64,
    /// When it wrote last; `None`: the time was set since.
    pub mtime: Option<Time>,
}

/// One file that somebody has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    /// Handles.
    pub readers: u32,
    /// Handles that may write.
    pub writers: u32,
    /// Furthest byte that writers who closed have written, and when; `None`: before the time was set.
    pub written: Option<(u64, Option<Time>)>,
    /// A writer was lost, or its report does not fit any more: nobody knows the size but the fragments.
    pub unknown: bool,
}

/// What closing a handle leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Others have the file open, or nobody wrote.
    Nothing,
    /// The last writer closed; this is what writers reported.
    LastWriter(OpenFile),
}

impl Sessions {
    /// A connection of this session is there.
    pub fn connected(&mut self, session: SessionId) {
        let session = self.sessions.entry(session).or_default();
        session.connections += 1;
        session.lost = None;
    }

    /// One went.
    pub fn disconnected(&mut self, session: SessionId, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.connections -= 1;
            if session.connections == 0 {
                session.lost = Some(now);
            }
        }
    }

    /// Remembers how a request ended.
    pub fn answer(&mut self, session: SessionId, id: u64, outcome: Outcome) {
        let session = self.sessions.entry(session).or_default();
        session.answers.insert(id, outcome);
        session.order.push_back(id);
        if session.order.len() > ANSWERS_MAX
            && let Some(oldest) = session.order.pop_front()
        {
            session.forget(oldest);
        }
    }

    /// The same for a request that did no more than open or close handles.
    pub fn answer_handles(&mut self, session: SessionId, id: u64, outcome: Outcome) {
        self.answer(session, id, outcome);
        self.sessions.entry(session).or_default().handles.insert(id);
    }

    /// The same for a request that the log has: with the shard's former life all connections were lost.
    pub fn recover_answer(&mut self, session: SessionId, id: u64, outcome: Outcome) {
        let session = self.sessions.entry(session).or_default();
        session.answers.insert(id, outcome);
        session.kept.push_back(id);
        session.bound_kept();
    }

    /// The session has lost connections, and may ask again for whatever was answered so far.
    pub fn keep_answers(&mut self, session: SessionId) {
        let Some(session) = self.sessions.get_mut(&session) else { return };
        session.kept.append(&mut session.order);
        session.bound_kept();
    }

    /// How a request ended, if it was done already.
    pub fn answered(&self, session: SessionId, id: u64) -> Option<Outcome> {
        self.sessions.get(&session)?.answers.get(&id).copied()
    }

    /// Every answer that is remembered, those of each session in order.
    pub fn answers(&self) -> impl Iterator<Item = (SessionId, u64, Outcome)> {
        self.sessions.iter().flat_map(|(&id, session)| {
            let requests = session.kept.iter().chain(&session.order);
            requests.filter_map(move |request| Some((id, *request, *session.answers.get(request)?)))
        })
    }

    /// Whether the log says that the session may hold something.
    pub fn is_noted(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.noted)
    }

    /// The log says so now.
    pub fn note(&mut self, session: SessionId) {
        self.sessions.entry(session).or_default().noted = true;
    }

    /// Every session that the log must name.
    pub fn noted(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().filter(|(_, session)| session.noted).map(|(&id, _)| id)
    }

    /// The log says that the session ended.
    pub fn forget(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Whether sessions may hold what nobody here knows of yet.
    pub fn is_awaiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// The session has said what it holds.
    pub fn came_back(&mut self, session: SessionId) {
        self.awaited.remove(&session);
    }

    /// Whether the session may open one more file.
    pub fn has_room(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_none_or(|session| session.opens.len() < OPEN_FILES_MAX)
    }

    /// Notes the handle that the request `id` opened; asked again, once.
    pub fn open_by(&mut self, session: SessionId, id: u64, ino: Ino, write: bool) {
        if self.sessions.entry(session).or_default().counted.insert(id) {
            self.open(session, ino, write);
        }
    }

    fn open(&mut self, session: SessionId, ino: Ino, write: bool) {
        let handles = self.sessions.entry(session).or_default().opens.entry(ino).or_default();
        let file = self.files.entry(ino).or_default();
        let (mine, all) =
            if write { (&mut handles.1, &mut file.writers) } else { (&mut handles.0, &mut file.readers) };
        *mine += 1;
        *all += 1;
    }

    /// What writers reported before a truncation says nothing of the size after it.
    pub fn truncated(&mut self, ino: Ino) {
        if let Some((end, _)) = self.files.get_mut(&ino).and_then(|file| file.written.as_mut()) {
            *end = 0;
        }
    }

    /// Notes that nobody knows the size of a file that is open for writing.
    pub fn size_unknown(&mut self, ino: Ino) {
        self.files.entry(ino).or_default().unknown = true;
    }

    /// Notes that nobody knows the sizes of those of these files that are open for writing; of all, if none is named.
    pub fn sizes_unknown(&mut self, inos: &[Ino]) {
        let doubt = |file: &mut OpenFile| file.unknown |= file.writers > 0;
        if inos.is_empty() {
            self.files.values_mut().for_each(doubt);
        } else {
            inos.iter().for_each(|ino| self.files.get_mut(ino).into_iter().for_each(doubt));
        }
    }

    /// After connections were lost, by a successor, or after a restart of the shard: notes all of a session's handles.
    /// Said twice, it counts once. Returns the files that it had open here.
    pub fn reclaim(&mut self, session: SessionId, opens: &[(Ino, u32, u32)]) -> Vec<Ino> {
        if let Some(session) = self.sessions.get_mut(&session) {
            // What was answered and not heard is not among `opens`, and what is asked again is done again.
            session.counted.clear();
            let again = std::mem::take(&mut session.handles);
            session.answers.retain(|id, _| !again.contains(id));
            session.order.retain(|id| !again.contains(id));
            session.kept.retain(|id| !again.contains(id));
        }
        let closed = self.close_all(session);
        for &(ino, readers, writers) in opens {
            self.sessions.entry(session).or_default().opens.insert(ino, (readers, writers));
            let file = self.files.entry(ino).or_default();
            file.readers += readers;
            file.writers += writers;
            // What was written before the restart is not in anybody's report any more.
            file.unknown |= writers > 0;
        }
        closed
    }

    /// Notes that a handle is gone. `written`: what its holder wrote; `Err`: a report that does not fit any more.
    pub fn close(
        &mut self,
        session: SessionId,
        ino: Ino,
        write: bool,
        written: Result<Option<Report>, ()>,
    ) -> Closed {
        let Some(handles) = self.sessions.get_mut(&session).and_then(|s| s.opens.get_mut(&ino)) else {
            return Closed::Nothing;
        };
        let mine = if write { &mut handles.1 } else { &mut handles.0 };
        if *mine == 0 {
            return Closed::Nothing;
        }
        *mine -= 1;
        if *handles == (0, 0) {
            self.sessions.get_mut(&session).map(|s| s.opens.remove(&ino));
        }
        self.leave(ino, u32::from(!write), u32::from(write), written)
    }

    /// The same, as far as is known while sessions have not said what they hold.
    pub fn may_be_written(&self, ino: Ino) -> bool {
        self.is_written(ino) || self.is_awaiting()
    }

    /// The session says that it ends. Returns the files that it had open.
    pub fn goodbye(&mut self, session: SessionId) -> Vec<Ino> {
        let closed = self.close_all(session);
        if let Some(session) = self.sessions.get_mut(&session) {
            let (connections, lost) = (session.connections, session.lost);
            *session = Session { connections, lost, ..Session::default() };
        }
        self.awaited.remove(&session);
        closed
    }

    /// Ends the sessions that have had no connection for longer than `grace`. Returns each with the files that it had
    /// open.
    pub fn expire(&mut self, now: Instant, grace: Duration) -> Vec<(SessionId, Vec<Ino>)> {
        let is_over = |s: &Session| s.lost.is_some_and(|lost| now.duration_since(lost) > grace);
        let over: Vec<SessionId> =
            self.sessions.iter().filter(|(_, s)| is_over(s)).map(|(&id, _)| id).collect();
        over.into_iter()
            .map(|id| {
                let closed = self.close_all(id);
                self.sessions.remove(&id);
                self.awaited.remove(&id);
                (id, closed)
            })
            .collect()
    }

    /// After recovery: sessions that the log names have until then to come back.
    pub fn all_lost(&mut self, now: Instant) {
        for session in self.sessions.values_mut() {
            session.lost = Some(now);
        }
        self.awaited = self.noted().collect();
    }

    fn close_all(&mut self, session: SessionId) -> Vec<Ino> {
        let opens = self.sessions.get_mut(&session).map(|s| std::mem::take(&mut s.opens)).unwrap_or_default();
        opens
            .into_iter()
            .map(|(ino, (readers, writers))| {
                let report = if writers > 0 { Err(()) } else { Ok(None) };
                self.leave(ino, readers, writers, report);
                ino
            })
            .collect()
    }

    fn leave(&mut self, ino: Ino, readers: u32, writers: u32, written: Result<Option<Report>, ()>) -> Closed {
        let Some(file) = self.files.get_mut(&ino) else { return Closed::Nothing };
        file.readers -= readers;
        file.writers -= writers;
        match written {
            Err(()) => file.unknown = true,
            Ok(None) => {}
            Ok(Some(new)) => {
                let (end, mtime) = file.written.unwrap_or_default();
                file.written = Some((end.max(new.end), mtime.max(new.mtime)));
            }
        }
        let last_writer = writers > 0 && file.writers == 0;
        let state = *file;
        if last_writer {
            (file.written, file.unknown) = (None, false);
        }
        if (state.readers, state.writers) == (0, 0) {
            self.files.remove(&ino);
        }
        if last_writer { Closed::LastWriter(state) } else { Closed::Nothing }
    }
}

impl Session {
    fn forget(&mut self, id: u64) {
        self.answers.remove(&id);
        self.counted.remove(&id);
        self.handles.remove(&id);
    }

    fn bound_kept(&mut self) {
        while self.kept.len() > KEPT_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.forget(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId([1; 16]);
    const B: SessionId = SessionId([2; 16]);

    fn written(end: u64) -> Result<Option<Report>, ()> {
        Ok(Some(Report { end, mtime: Some(Time { seconds: 5, nanos: 0 }) }))
    }

    #[test]
    fn the_last_writer_learns_the_furthest_end_of_all() {
        let mut sessions = Sessions::default();
        sessions.open(A, Ino(7), true);
        sessions.open(B, Ino(7), true);
        assert_eq!(sessions.close(A, Ino(7), true, written(900)), Closed::Nothing);
        let Closed::LastWriter(file) = sessions.close(B, Ino(7), true, written(500)) else {
            panic!("B was the last writer")
        };
        assert_eq!(file.written.map(|(end, _)| end), Some(900));
        assert!(!file.unknown && !sessions.is_open(Ino(7)));
    }

    #[test]
    fn a_session_that_is_lost_for_the_grace_period_loses_its_files_and_the_size() {
        let mut sessions = Sessions::default();
        let start = Instant::now();
        sessions.connected(A);
        sessions.open(A, Ino(7), true);
        sessions.open(B, Ino(7), true);
        sessions.disconnected(A, start);
        assert_eq!(sessions.expire(start + Duration::from_secs(9), Duration::from_secs(10)), vec![]);
        let over = sessions.expire(start + Duration::from_secs(11), Duration::from_secs(10));
        assert_eq!(over, vec![(A, vec![Ino(7)])]);
        let Closed::LastWriter(file) = sessions.close(B, Ino(7), true, written(500)) else {
            panic!("B was the last writer")
        };
        assert!(file.unknown);
    }

    #[test]
    fn what_was_answered_is_remembered_and_bounded() {
        let mut sessions = Sessions::default();
        for id in 0..3000 {
            sessions.answer(A, id, Outcome::Inode(Ino(id)));
        }
        assert_eq!(sessions.answered(A, 2999), Some(Outcome::Inode(Ino(2999))));
        assert_eq!(sessions.answered(A, 1), None);
        assert_eq!(sessions.answered(B, 2999), None);
    }

    #[test]
    fn what_was_answered_before_connections_were_lost_is_not_displaced_by_what_comes_after() {
        let mut sessions = Sessions::default();
        sessions.answer(A, 7, Outcome::Offset(70));
        sessions.keep_answers(A);
        for id in 1000..5000 {
            sessions.answer(A, id, Outcome::Done);
        }
        assert_eq!(sessions.answered(A, 7), Some(Outcome::Offset(70)));
        assert_eq!(sessions.answers().next(), Some((A, 7, Outcome::Offset(70))));
        for _ in 0..10 {
            (10_000..11_000).for_each(|id| sessions.answer(A, id, Outcome::Done));
            sessions.keep_answers(A);
        }
        assert_eq!(sessions.answered(A, 7), None);
        assert!(sessions.answers().count() <= KEPT_MAX);
    }

    #[test]
    fn what_was_reported_before_a_truncation_does_not_make_the_file_longer() {
        let mut sessions = Sessions::default();
        sessions.open(A, Ino(7), true);
        sessions.open(A, Ino(7), true);
        sessions.close(A, Ino(7), true, written(900));
        sessions.truncated(Ino(7));
        let Closed::LastWriter(file) = sessions.close(A, Ino(7), true, written(50)) else {
            panic!("it was the last writer")
        };
        assert_eq!(file.written.map(|(end, _)| end), Some(50));
    }

    #[test]
    fn what_the_log_has_of_many_answers_is_remembered_as_that_of_lost_connections() {
        let mut sessions = Sessions::default();
        for id in 0..3000 {
            sessions.recover_answer(A, id, Outcome::Done);
        }
        assert_eq!(sessions.answered(A, 1), Some(Outcome::Done));
    }

    #[test]
    fn a_close_that_is_asked_again_after_its_handle_was_reclaimed_is_done_again() {
        let mut sessions = Sessions::default();
        sessions.open(A, Ino(7), true);
        sessions.close(A, Ino(7), true, written(9));
        sessions.answer_handles(A, 5, Outcome::Done);
        sessions.reclaim(A, &[(Ino(7), 0, 1)]);
        assert!(sessions.is_open(Ino(7)) && sessions.answered(A, 5).is_none());
    }

    #[test]
    fn reclaiming_twice_counts_once() {
        let mut sessions = Sessions::default();
        sessions.reclaim(A, &[(Ino(7), 1, 1)]);
        sessions.reclaim(A, &[(Ino(7), 1, 1)]);
        assert!(matches!(sessions.close(A, Ino(7), true, written(3)), Closed::LastWriter(f) if f.unknown));
        sessions.close(A, Ino(7), false, Ok(None));
        assert!(!sessions.is_open(Ino(7)));
    }
}
