//! The sockets of the data path: each connection has a thread of its own.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use wire::data::Stream;
use wire::data::connection::is_shortage;

use super::serve;
use crate::objects::open_objects;
use crate::seldom::Seldom;
use crate::server::{Server, thread};

impl Server {
    /// Serves the data path on these sockets, with a thread for each connection.
    ///
    /// # Errors
    /// The errno of what the system refused; sockets that fail later are logged.
    pub fn listen(self: &Arc<Server>, tcp: TcpListener, unix: UnixListener) -> io::Result<()> {
        self.listens_on([tcp.try_clone()?.into(), unix.try_clone()?.into()]);
        let accept_tcp = move || {
            let (stream, _) = tcp.accept()?;
            Stream::tcp(stream)
        };
        let accept_unix = move || unix.accept().map(|(stream, _)| Stream::Unix(stream));
        let server = self.clone();
        thread("accept-tcp", move || server.accept_all(accept_tcp))?;
        let server = self.clone();
        thread("accept-unix", move || server.accept_all(accept_unix))
    }

    fn accept_all(self: &Arc<Server>, accept: impl Fn() -> io::Result<Stream>) {
        let failed = Seldom::default();
        while !self.is_stopping() {
            match accept() {
                Ok(stream) => {
                    if let Err(error) = self.accepted(stream)
                        && let Some(times) = failed.due()
                    {
                        tracing::warn!(%error, times, "cannot serve connections");
                    }
                }
                Err(_) if self.is_stopping() => {}
                Err(error) => {
                    if let Some(times) = failed.due() {
                        tracing::warn!(%error, times, "cannot accept connections");
                    }
                    if !is_shortage(&error) || !open_objects::make_room() {
                        // A moment later somebody may have hung up.
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
            }
        }
    }

    fn accepted(self: &Arc<Server>, stream: Stream) -> io::Result<()> {
        // Whoever has hung up already is nobody to tell of.
        let Ok(stranger) = self.places.stranger(&stream) else { return Ok(()) };
        let server = self.clone();
        thread("data", move || serve(&server, stranger, stream))
    }
}
