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

/// A mount from before objects were noted gave it.
const UNKNOWN: (u64, u64) = (0, 0);

/// Takes over backing files, and who has pages.
pub(super) fn adopt(
    ledger: &Ledger,
    device: &Device,
    client: &Client,
    passthrough: &Passthrough,
) -> Pages<Fill> {
    let pages = Pages::default();
    let mut elsewhere: HashMap<_, u32> = HashMap::new();
    for (ino, backing, opens) in ledger.backings() {
        elsewhere.insert(ino, opens);
        match backing.id {
            files::PAGES => pages.adopt(ino, true, opens),
            number => {
                let object = (backing.object != UNKNOWN).then_some(backing.object);
                let id = BackingId::adopt(device, number);
                passthrough.adopt(ino, id, opens, client.handed_before(object));
            }
        }
    }
    for (ino, readers, writers) in ledger.held().opens {
        if passthrough.is_open(ino) {
            (0..writers).for_each(|_| client.kernel_wrote_before(ino));
        }
        let past = readers + writers - elsewhere.get(&ino).copied().unwrap_or(0);
        if past > 0 {
            pages.adopt(ino, false, past);
        }
    }
    pages
}
