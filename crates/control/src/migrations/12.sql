-- What the PFS side was on when the transfer was accepted, a wire::node::PfsMount. NULL: it is not known.
ALTER TABLE transfers ADD COLUMN pfs_mount_json TEXT;
