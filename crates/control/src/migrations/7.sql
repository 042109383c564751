-- A namespace may be mounted at several places of one node.
CREATE TABLE new_activations (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    token         TEXT NOT NULL REFERENCES sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    -- The persistent buffer that is mounted; empty: the session's own.
    buffer        TEXT NOT NULL,
    access_mode   TEXT NOT NULL,
    node          TEXT NOT NULL,
    -- Which of the namespace's mounts on the node, from 0.
    ordinal       INTEGER NOT NULL,
    -- Whether other mounts may be there beside it.
    shared        INTEGER NOT NULL,
    mountpoint    TEXT NOT NULL,
    mounted       INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    UNIQUE (token, buffer, access_mode, node, ordinal)
) STRICT;
INSERT INTO new_activations
    SELECT number, token, buffer, access_mode, node, 0, 0, mountpoint, mounted, interruptions FROM activations;
DROP TABLE activations;
ALTER TABLE new_activations RENAME TO activations;
