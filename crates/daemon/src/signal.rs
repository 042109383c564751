//! The signals of a service: SIGTERM and SIGINT ask it to stop, a terminal's hang-up does not.

use tokio::signal::unix::{SignalKind, signal};

/// Completes when SIGTERM or SIGINT arrives. From this call on SIGHUP is ignored.
///
/// Must be called inside a tokio runtime.
///
/// # Errors
/// The kernel refused a handler.
pub fn terminated() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // A handler that nobody waits for is how tokio ignores a signal.
    let hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        let _ignored_meanwhile = hangup;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
