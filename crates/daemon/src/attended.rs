//! A process of ours that another attends: it is told what to do in a line on its standard input, and is to end when
//! that ends, however the other one did.

use std::io;
use std::thread;

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

/// Reads the line, and blocks until it is there. What comes with it completes when the input has ended.
///
/// # Errors
/// The input ended before, or does not say that.
pub fn told<T: DeserializeOwned>() -> io::Result<(T, impl Future<Output = ()> + Send + 'static)> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let told = serde_json::from_str(&line)?;
    let (ended, end) = oneshot::channel::<()>();
    thread::Builder::new().name("attended".into()).spawn(move || {
        // Nothing more is said; one that cannot be read has ended as well.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(ended);
    })?;
    Ok((told, async move {
        let _ = end.await;
    }))
}
