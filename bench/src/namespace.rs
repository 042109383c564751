//! Further clients of a mounted buffer's namespace, as the compute nodes of a job would be.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use client::Client;
use model::phase::Coherence;
use tests::cluster::program_folder;
use wire::node::{MountSpec, NamespaceTarget};

use crate::buffer::Buffer;
use crate::mount_process::MountProcess;

/// What the buffer's own mount was started with.
fn spec(buffer: &Buffer) -> Result<MountSpec> {
    let mounts = buffer.cluster().state.join("nodes/n0/mounts");
    let entry = fs::read_dir(&mounts).and_then(|mut entries| entries.next().transpose());
    let path =
        entry.with_context(|| format!("list {}", mounts.display()))?.context("there is one mount")?.path();
    let text = fs::read(path.join(SPEC)).with_context(|| format!("read {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// What a process needs to use the namespace.
pub fn target(buffer: &Buffer) -> Result<NamespaceTarget> {
    Ok(spec(buffer)?.target)
}

/// A client of the namespace in this process, without FUSE.
pub fn connect(buffer: &Buffer) -> Result<Client> {
    Ok(Client::connect(&spec(buffer)?.target)?)
}

/// Several of them.
pub fn clients(buffer: &Buffer, count: usize) -> Result<Vec<Client>> {
    (0..count).map(|_| connect(buffer)).collect()
}

/// The file of a mount's folder that says how it was started.
const SPEC: &str = "spec.json";

/// Mounts the namespace `count` times more, each in a process of its own, all of them aware of each other.
pub fn mount_shared(buffer: &Buffer, count: usize, coherence: Coherence) -> Result<Vec<MountProcess>> {
    let spec = spec(buffer)?;
    (0..count)
        .map(|number| {
            let folder = buffer.folder_beside(&format!("client-{number}"));
            let mountpoint = folder.join("mnt");
            fs::create_dir(&mountpoint)?;
            let id = format!("{}-{number}", spec.id);
            let mut spec = MountSpec { id, mountpoint, exclusive: false, ..spec.clone() };
            spec.behaviour.coherence = coherence;
            start(&spec, &folder)
        })
        .collect()
}

fn start(spec: &MountSpec, folder: &Path) -> Result<MountProcess> {
    let path = folder.join(SPEC);
    fs::write(&path, serde_json::to_vec(spec)?)?;
    let mut command = Command::new(program_folder().join("forebay-mount"));
    command.arg("--spec").arg(&path).stderr(File::create(folder.join("log"))?);
    MountProcess::start(command, &spec.mountpoint)
}
