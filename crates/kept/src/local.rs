//! The specification of a private volume.

use std::path::PathBuf;

use model::Token;
use model::phase::Drain;
use wire::control::Owner;
use wire::node::{LocalDrain, LocalSpec};

form! {
    struct LocalForm of LocalSpec {
        id: String,
        owner: Owner,
        user: String,
        capacity_bytes: Option<u64>,
        #[serde(default)]
        drain: Option<LocalDrain>,
    }
}

form! {
    struct DrainForm of LocalDrain {
        from: String,
        to: PathBuf,
        session: Token,
        when: Option<Drain>,
        #[serde(default)]
        slurm_job: Option<Token>,
    }
}
