-- Stages on demand: what programs and people ask for while a buffer lives.

ALTER TABLE instances ADD COLUMN stage_concurrency INTEGER NOT NULL DEFAULT 4;

CREATE TABLE demands (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The session whose instance it is.
    token       TEXT NOT NULL REFERENCES instances (token) ON UPDATE CASCADE ON DELETE CASCADE,
    -- The session that asked, at whose end a deferred one is due. It may be forgotten before a persistent buffer is.
    job         TEXT REFERENCES sessions (token) ON UPDATE CASCADE ON DELETE SET NULL,
    direction   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    buffer_path TEXT NOT NULL,
    pfs_path    TEXT NOT NULL,
    -- Whose rights apply.
    owner_uid   INTEGER NOT NULL,
    owner_gid   INTEGER NOT NULL,
    state       TEXT NOT NULL,
    -- The file's size as far as who asked knows, until it fails with others: what then has none runs alone.
    size_hint   INTEGER,
    -- While it is active, the number of the first of those that one worker stages.
    batch       INTEGER,
    -- The last report, a wire::control::StageStatus.
    report_json TEXT
) STRICT;
CREATE INDEX demands_by_path ON demands (token, access_mode, buffer_path);
CREATE INDEX demands_by_state ON demands (token, state);
CREATE INDEX demands_by_job ON demands (job);
