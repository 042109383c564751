-- The first schema. Enumerations are the snake_case words of the model crate. Columns named *_json hold JSON of wire
-- types that are only shown to people again; one that does not parse any more is treated as absent.

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

-- One row per token; kept after teardown, so that a repeated teardown is answered.
CREATE TABLE sessions (
    token        TEXT PRIMARY KEY,
    created_unix INTEGER NOT NULL,
    owner_uid    INTEGER NOT NULL,
    owner_gid    INTEGER NOT NULL,
    script_text  TEXT NOT NULL,
    script_path  TEXT NOT NULL,
    workdir      TEXT NOT NULL,
    job_name     TEXT NOT NULL,
    user_name    TEXT NOT NULL,
    phase        TEXT NOT NULL,
    -- Whether the job could ever write: decides if teardown may destroy what was not staged out.
    was_mounted  INTEGER NOT NULL DEFAULT 0,
    failed_json  TEXT,
    kept         TEXT,
    notes_json   TEXT NOT NULL
) STRICT;

-- Written before the first fragment is made, deleted after the last is gone.
CREATE TABLE instances (
    token           TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    id              TEXT NOT NULL UNIQUE,
    key             TEXT NOT NULL,
    requested_bytes INTEGER NOT NULL,
    capacity_bytes  INTEGER NOT NULL,
    volume          TEXT NOT NULL
) STRICT;

CREATE TABLE fragments (
    token TEXT NOT NULL REFERENCES instances ON DELETE CASCADE,
    -- Which of the instance's fragments, from 0.
    position INTEGER NOT NULL,
    node  TEXT NOT NULL,
    PRIMARY KEY (token, position)
) STRICT;

-- The namespaces of an instance, in the script's order.
CREATE TABLE namespaces (
    token       TEXT NOT NULL REFERENCES instances ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    access_mode TEXT NOT NULL,
    PRIMARY KEY (token, position)
) STRICT;

-- Written before the mount is asked for; `mounted` is cleared after the node has let it go.
CREATE TABLE activations (
    token         TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    access_mode   TEXT NOT NULL,
    node          TEXT NOT NULL,
    mountpoint    TEXT NOT NULL,
    mounted       INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    PRIMARY KEY (token, access_mode)
) STRICT;

CREATE TABLE stages (
    token       TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    -- Every stage_in of the script in its order, then every stage_out.
    position    INTEGER NOT NULL,
    direction   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    pfs_path    TEXT NOT NULL,
    buffer_path TEXT NOT NULL,
    source      TEXT NOT NULL,
    destination TEXT NOT NULL,
    state       TEXT NOT NULL,
    -- The last report, a wire::control::StageStatus.
    report_json TEXT,
    PRIMARY KEY (token, position)
) STRICT;

-- How long the last completed call of each function took.
CREATE TABLE timings (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    token    TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    function TEXT NOT NULL,
    elapsed_ms INTEGER NOT NULL
) STRICT;
