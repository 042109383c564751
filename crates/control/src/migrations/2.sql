-- Several hosts, persistent buffers, sessions that are set aside, and numbers for every object. Tables are made anew, as
-- SQLite cannot add `ON UPDATE CASCADE`: a session that is set aside gets another token.

CREATE TABLE new_sessions (
    -- Never given twice.
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    token        TEXT NOT NULL UNIQUE,
    -- The name that nodes know its mounts and stages by: its first token, unless another session had that.
    handle       TEXT NOT NULL,
    caller       TEXT NOT NULL,
    created_unix INTEGER NOT NULL,
    owner_uid    INTEGER NOT NULL,
    owner_gid    INTEGER NOT NULL,
    script_text  TEXT NOT NULL,
    script_path  TEXT NOT NULL,
    workdir      TEXT NOT NULL,
    job_name     TEXT NOT NULL,
    user_name    TEXT NOT NULL,
    phase        TEXT NOT NULL,
    was_mounted  INTEGER NOT NULL DEFAULT 0,
    failed_json  TEXT,
    kept         TEXT,
    notes_json   TEXT NOT NULL,
    -- Whether it is a persistent buffer, and whether every user's jobs may use that.
    persistent   INTEGER NOT NULL DEFAULT 0,
    shared       INTEGER NOT NULL DEFAULT 0,
    -- The token that it had before it was set aside.
    quarantined  TEXT
) STRICT;
INSERT INTO new_sessions (token, handle, caller, created_unix, owner_uid, owner_gid, script_text, script_path, workdir,
    job_name, user_name, phase, was_mounted, failed_json, kept, notes_json)
    SELECT token, token, 'CLI', created_unix, owner_uid, owner_gid, script_text, script_path, workdir, job_name,
    user_name, phase, was_mounted, failed_json, kept, notes_json FROM sessions ORDER BY rowid;

CREATE TABLE new_instances (
    token           TEXT PRIMARY KEY REFERENCES sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    id              TEXT NOT NULL UNIQUE,
    key             TEXT NOT NULL,
    requested_bytes INTEGER NOT NULL,
    capacity_bytes  INTEGER NOT NULL,
    volume          TEXT NOT NULL,
    pool            TEXT NOT NULL,
    granularity_bytes INTEGER NOT NULL
) STRICT;
INSERT INTO new_instances SELECT *, 'local', 1048576 FROM instances ORDER BY rowid;

CREATE TABLE new_fragments (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    token    TEXT NOT NULL REFERENCES new_instances (token) ON UPDATE CASCADE ON DELETE CASCADE,
    position INTEGER NOT NULL,
    node     TEXT NOT NULL,
    UNIQUE (token, position)
) STRICT;
INSERT INTO new_fragments (token, position, node) SELECT token, position, node FROM fragments ORDER BY rowid;

CREATE TABLE new_namespaces (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    token       TEXT NOT NULL REFERENCES new_instances (token) ON UPDATE CASCADE ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    access_mode TEXT NOT NULL,
    UNIQUE (token, position)
) STRICT;
INSERT INTO new_namespaces (token, position, access_mode)
    SELECT token, position, access_mode FROM namespaces ORDER BY rowid;

-- Which compute node has which private namespace of an instance.
CREATE TABLE private_namespaces (
    token TEXT NOT NULL REFERENCES new_instances (token) ON UPDATE CASCADE ON DELETE CASCADE,
    node  TEXT NOT NULL,
    -- Its number in the instance, from 16.
    id    INTEGER NOT NULL,
    PRIMARY KEY (token, node)
) STRICT;

CREATE TABLE new_activations (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    token         TEXT NOT NULL REFERENCES new_sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    -- The persistent buffer that is mounted; empty: the session's own.
    buffer        TEXT NOT NULL,
    access_mode   TEXT NOT NULL,
    node          TEXT NOT NULL,
    mountpoint    TEXT NOT NULL,
    mounted       INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    UNIQUE (token, buffer, access_mode, node)
) STRICT;
INSERT INTO new_activations (token, buffer, access_mode, node, mountpoint, mounted, interruptions)
    SELECT token, '', access_mode, node, mountpoint, mounted, interruptions FROM activations ORDER BY rowid;

-- Which session uses the namespaces of which instance.
CREATE TABLE registrations (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    token       TEXT NOT NULL REFERENCES new_sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    -- The persistent buffer; empty: the session's own.
    buffer      TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    UNIQUE (token, buffer, access_mode)
) STRICT;
INSERT INTO registrations (token, buffer, access_mode)
    SELECT token, '', access_mode FROM namespaces ORDER BY rowid;

CREATE TABLE new_stages (
    token       TEXT NOT NULL REFERENCES new_sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    direction   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    -- The persistent buffer that is staged; empty: the session's own.
    buffer      TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    pfs_path    TEXT NOT NULL,
    buffer_path TEXT NOT NULL,
    source      TEXT NOT NULL,
    destination TEXT NOT NULL,
    state       TEXT NOT NULL,
    report_json TEXT,
    PRIMARY KEY (token, position)
) STRICT;
INSERT INTO new_stages SELECT token, position, direction, kind, '', access_mode, pfs_path, buffer_path, source,
    destination, state, report_json FROM stages ORDER BY rowid;

CREATE TABLE new_timings (
    sequence   INTEGER PRIMARY KEY AUTOINCREMENT,
    token      TEXT NOT NULL REFERENCES new_sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    function   TEXT NOT NULL,
    elapsed_ms INTEGER NOT NULL
) STRICT;
INSERT INTO new_timings SELECT * FROM timings;

-- What refers to another table first; renaming a table renames it where it is referred to.
DROP TABLE timings;
DROP TABLE stages;
DROP TABLE activations;
DROP TABLE namespaces;
DROP TABLE fragments;
DROP TABLE instances;
DROP TABLE sessions;
ALTER TABLE new_sessions RENAME TO sessions;
ALTER TABLE new_instances RENAME TO instances;
ALTER TABLE new_fragments RENAME TO fragments;
ALTER TABLE new_namespaces RENAME TO namespaces;
ALTER TABLE new_activations RENAME TO activations;
ALTER TABLE new_stages RENAME TO stages;
ALTER TABLE new_timings RENAME TO timings;

-- The nodes of a cluster, as they registered.
CREATE TABLE nodes (
    name           TEXT PRIMARY KEY,
    storage        INTEGER NOT NULL,
    compute        INTEGER NOT NULL,
    address        TEXT NOT NULL,
    -- Empty: the default pool.
    pool           TEXT NOT NULL,
    capacity_bytes INTEGER NOT NULL,
    mount_root     TEXT NOT NULL,
    version        TEXT NOT NULL,
    -- Why it gets nothing new.
    drained        TEXT
) STRICT;

-- What was to be taken from a node that did not answer: taken when it is back.
CREATE TABLE leftovers (
    node TEXT NOT NULL,
    -- `mount`, `fragment` or `stage`.
    kind TEXT NOT NULL,
    id   TEXT NOT NULL,
    PRIMARY KEY (node, kind, id)
) STRICT;
