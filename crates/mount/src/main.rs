//! `forebay-mount`: serves one mount, in the foreground, until it is unmounted or told to stop.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use client::Client;
use mount::kernel;
use mount::namespace::Namespace;
use tokio::signal::unix::{SignalKind, signal};
use wire::node::MountSpec;

#[derive(Parser)]
#[command(version, about = "Serves one mount of a Forebay namespace; started by forebay-node")]
struct Arguments {
    /// A file with the mount's specification, in JSON.
    #[arg(long)]
    spec: PathBuf,
}

fn main() {
    daemon::logging::init();
    let arguments = Arguments::parse();
    if let Err(error) = run(&arguments.spec) {
        // One line, for the supervisor to pass on.
        eprintln!("forebay-mount: {error:#}");
        std::process::exit(1);
    }
}

fn run(spec: &Path) -> anyhow::Result<()> {
    let text = std::fs::read(spec).with_context(|| format!("read {}", spec.display()))?;
    let spec: MountSpec =
        serde_json::from_slice(&text).with_context(|| format!("read {}", spec.display()))?;
    let client = Client::connect(&spec.target).context("connect to the namespace")?;
    let name = format!("forebay-{}", spec.target.instance);
    let session = kernel::mount(Namespace::new(client, spec.exclusive), &spec.mountpoint, &name)
        .with_context(|| format!("mount at {}", spec.mountpoint.display()))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        announce()?;
        tracing::info!(mountpoint = %spec.mountpoint.display(), "mounted");
        let mut served = tokio::task::spawn_blocking(move || session.join());
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            ended = &mut served => return ended?.context("serve the mount"),
        }
        kernel::unmount(&spec.mountpoint)
            .with_context(|| format!("unmount {}", spec.mountpoint.display()))?;
        served.await?.context("serve the mount")
    });
    // Where unmounting failed, the session still waits for its end: nobody waits for that.
    runtime.shutdown_background();
    served?;
    tracing::info!("unmounted");
    Ok(())
}

/// Tells the supervisor that the mount is there. It may be gone already: the mount goes on without it.
fn announce() -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    match writeln!(stdout, "mounted").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("report the mount")
        }
        _ => Ok(()),
    }
}
