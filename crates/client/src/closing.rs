//! Closes that the home shard is told a moment later.
//!
//! Who closes a file often opens it again at once, or makes the next one. So a close is held for a moment
//! ([`crate::closer`]): an open of the same file takes it back, and else it goes along with the next request to the
//! home shard, in front of it, so that nothing this client asks is answered as if the file were still open.

use std::sync::Arc;

use model::Ino;
use wire::data::message::ClosedHandle;
use wire::data::{Reply, Request};

use super::closer::Closer;
use super::{Ask, Client, Result};

impl Client {
    /// Holds closes from now on; a thread that ends with the client sends what nothing else takes along.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn hold_closes(mut self) -> Arc<Client> {
        let closer = Arc::<Closer>::default();
        self.closer = Some(Arc::clone(&closer));
        let client = Arc::new(self);
        let weak = Arc::downgrade(&client);
        let send = move || {
            // A node that was lost has been logged; the handles end with the session.
            let _sent = weak.upgrade().map(|client| client.send_held());
        };
        std::thread::Builder::new()
            .name("closer".into())
            .spawn(move || closer.run(send))
            .expect("the system has a thread for closes");
        client
    }

    /// Closes one handle.
    pub fn close(&self, ino: Ino, write: bool) -> Result<()> {
        let Some(closer) = &self.closer else {
            let handles = self.files().closing(vec![(ino, write)]);
            return self.send_closes(handles);
        };
        // Not in the condition: the table would stay locked after it.
        let held = self.files().hold(ino, write);
        if closer.wake(held) { Ok(()) } else { self.send_held() }
    }

    /// Tells the home shard every close that is held.
    pub fn send_held(&self) -> Result<()> {
        let held = self.files().take_held();
        if held.is_empty() { Ok(()) } else { self.send_closes(held) }
    }

    /// Asks the home shard, once it knows every loss, and every close that is held.
    pub(super) fn ask_home(&self, id: u64, request: &Request) -> Result<Reply> {
        self.tell_doubts()?;
        let held = if goes_alone(request) { Vec::new() } else { self.files().take_held() };
        if held.is_empty() {
            return self.ask_as(id, self.home, request, &[]);
        }
        let ask = |id, request| Ask { fragment: self.home, id, request, payload: &[], into: &mut [] };
        let mut asks = [ask(self.id(), Request::Close { handles: held.clone() }), ask(id, request.clone())];
        let mut answers = self.nodes.exchange(&mut asks).into_iter();
        let closed = answers.next().expect("an answer for each request");
        // A file whose size could not be settled stays one that is measured: no reason to fail what was asked.
        let _settled = self.settled(&held, closed.map(|(reply, _)| reply));
        answers.next().expect("an answer for each request").map(|(reply, _)| reply)
    }

    fn send_closes(&self, handles: Vec<ClosedHandle>) -> Result<()> {
        let request = Request::Close { handles: handles.clone() };
        let reply = self.tell_doubts().and_then(|()| self.ask_as(self.id(), self.home, &request, &[]));
        self.settled(&handles, reply)
    }

    /// Settles the sizes that the answer to a close leaves open. Handles whose close was not heard are held again.
    pub(super) fn settled(&self, handles: &[ClosedHandle], closed: Result<Reply>) -> Result<()> {
        if closed.is_err() {
            self.files().hold_again(handles);
        }
        if let Reply::Measure(files) = closed? {
            files.into_iter().try_for_each(|(ino, epoch)| self.settle(ino, epoch))?;
        }
        Ok(())
    }
}

/// What says nothing about files that were closed, and is asked for often while closes come in.
fn goes_alone(request: &Request) -> bool {
    matches!(request, Request::Open { .. } | Request::Create { .. } | Request::Settle { .. })
}
