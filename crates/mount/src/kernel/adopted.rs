//! What a former process of this mount gave to the kernel, as the ledger has it.

use std::collections::HashMap;

use client::Client;
use fuse::backing::BackingId;
use fuse::device::Device;

use super::contents::Fill;
use super::files;
use super::pages::Pages;
use super::passthrough::Passthrough;
use crate::ledger::Ledger;

/// Takes over backing files, and who has pages.
pub(super) fn adopt(
    ledger: &Ledger,
    device: &Device,
    client: &Client,
    passthrough: &Passthrough,
) -> Pages<Fill> {
    let pages = Pages::default();
    let mut elsewhere: HashMap<_, u32> = HashMap::new();
    for (ino, backing_id, opens) in ledger.backings() {
        elsewhere.insert(ino, opens);
        match backing_id {
            files::PAGES => pages.adopt(ino, true, opens),
            _ => {
                let id = BackingId::adopt(device, backing_id);
                passthrough.adopt(ino, id, opens, client.handed_before());
            }
        }
    }
    for (ino, readers, writers) in ledger.held().opens {
        if passthrough.is_open(ino) {
            (0..writers).for_each(|_| client.kernel_writes(ino));
        }
        let past = readers + writers - elsewhere.get(&ino).copied().unwrap_or(0);
        if past > 0 {
            pages.adopt(ino, false, past);
        }
    }
    pages
}
