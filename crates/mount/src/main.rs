//! `forebay-mount`: serves one mount, in the foreground, until it is unmounted or told to stop.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use client::{Client, Sharing};
use fuse::device::Device;
use fuse::session::{Negotiated, Session};
use model::phase::Coherence;
use mount::behind::Behind;
use mount::demotion;
use mount::handover;
use mount::kernel::{self, Mounted, WriteBack};
use mount::leaving::{self, Ends};
use mount::ledger::{Identity, Ledger};
use mount::renewing::{self, specification};
use mount::view::MountView;
use wire::node::MountSpec;

/// A few connections to each of hundreds of storage nodes.
const DESCRIPTORS: u64 = 8192;

#[derive(Parser)]
#[command(
    name = "forebay-mount",
    version,
    about = "Serves one mount of a Forebay namespace; started by forebay-node"
)]
struct Arguments {
    /// A file with the mount's specification, in JSON. The mount's ledger and socket are kept beside it.
    #[arg(long)]
    spec: PathBuf,
    /// Go on for a process of this mount that died; its /dev/fuse is the standard input.
    #[arg(long)]
    resume: bool,
}

fn main() {
    daemon::begin::begin();
    daemon::descriptors::raise(DESCRIPTORS);
    let arguments = Arguments::parse();
    if let Err(error) = run(&arguments) {
        // One line, for the supervisor to pass on.
        eprintln!("forebay-mount: {error:#}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.spec;
    wire::data::moved::look_above(path);
    let spec = specification(path)?;
    renewing::begin(path)?;
    let ledger = path.with_file_name("ledger");
    let folder = path.parent().unwrap_or(Path::new(""));
    let (sharing, listener) =
        demotion::begin(folder, spec.exclusive).context("listen for mounts that share the namespace")?;
    let begun = if arguments.resume { take_up } else { begin };
    let (client, behind, identity) = begun(&spec, &ledger, sharing)?;
    let namespace = MountView::new(client.with_sharing(sharing), behind);
    let (client, farewell) = (Arc::clone(namespace.client()), namespace.farewell());
    let mounted = match identity {
        Some((ledger, negotiated)) => {
            let device = std::io::stdin().as_fd().try_clone_to_owned().context("take the device")?;
            kernel::resume(namespace, Device::from(device), &negotiated, ledger)
                .context("take the mount over")?
        }
        None => mount(namespace, &spec, &ledger)?,
    };
    if let Some(listener) = listener {
        demotion::serve(listener, client, mounted.names)
            .context("wait for mounts that share the namespace")?;
    }
    let offer = path.with_file_name("device.sock");
    if mounted.resumable {
        handover::offer(mounted.device, &offer).context("offer the device to the supervisor")?;
    }
    let served = serve((mounted.session, mounted.write_back), path, &spec.mountpoint);
    handover::withdraw(&offer);
    leaving::bid(farewell);
    served?;
    tracing::info!("unmounted");
    Ok(())
}

/// What a process needs of the mount: of one that died, its ledger and what it had agreed with the kernel.
type Begun = (Client, Option<Behind>, Option<(Ledger, Negotiated)>);

/// For a new mount.
fn begin(spec: &MountSpec, ledger: &Path, sharing: Sharing) -> anyhow::Result<Begun> {
    let client = Client::connect(&spec.target).context("connect to the namespace")?;
    let behind = journal_of(spec, ledger, sharing).map(|journal| Behind::create(&journal)).transpose();
    Ok((client, behind.context("make the journal of what is held back")?, None))
}

fn mount(namespace: MountView, spec: &MountSpec, ledger: &Path) -> anyhow::Result<Mounted> {
    let session = namespace.session();
    let name = disk::mount_table::name_of(spec.target.instance.as_str());
    let ledger = |negotiated| Ledger::create(ledger, Identity { session, negotiated });
    namespace.look_around();
    kernel::mount(namespace, &spec.mountpoint, &name, ledger)
        .with_context(|| format!("mount at {}", spec.mountpoint.display()))
}

/// For the mount of a process that died.
fn take_up(spec: &MountSpec, path: &Path, sharing: Sharing) -> anyhow::Result<Begun> {
    let (ledger, identity) = Ledger::open(path).with_context(|| format!("read {}", path.display()))?;
    let client = Client::resume(&spec.target, identity.session, ledger.held(), ledger.remembered())
        .context("go on with the former session")?;
    let behind = journal_of(spec, path, sharing).map(|journal| Behind::open(&journal)).transpose();
    let behind = behind.context("read the journal of what was held back")?;
    Ok((client, behind, Some((ledger, identity.negotiated))))
}

/// Where the journal of what is held back is, beside the ledger; `None` where nothing may be, or nobody could see it.
fn journal_of(spec: &MountSpec, ledger: &Path, sharing: Sharing) -> Option<PathBuf> {
    let holds = spec.behaviour.coherence == Coherence::Commit && !sharing.owns_contents();
    holds.then(|| ledger.with_file_name("held"))
}

fn serve(mounted: (Session, WriteBack), spec: &Path, mountpoint: &Path) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let served = runtime.block_on(async {
        let ends = Ends::of(mounted, spec, mountpoint).context("wait for signals")?;
        announce()?;
        tracing::info!(mountpoint = %mountpoint.display(), "mounted");
        ends.wait().await.context("serve the mount")
    });
    // Threads may still serve copies of the mount in other mount namespaces: nobody waits for those.
    runtime.shutdown_background();
    served
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
