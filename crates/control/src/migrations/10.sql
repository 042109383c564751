-- One table of what is copied: the stages of scripts (`stages`) and those that were asked for while a buffer lived (`demands`).

CREATE TABLE transfers (
    -- Never given twice. A transfer on demand is known by it.
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The session with which it is forgotten: whose script has it, or whose instance it was asked for.
    token       TEXT NOT NULL REFERENCES sessions (token) ON UPDATE CASCADE ON DELETE CASCADE,
    -- The session whose job it is done for. It may be forgotten before a persistent buffer is.
    job         TEXT REFERENCES sessions (token) ON UPDATE CASCADE ON DELETE SET NULL,
    -- Its place in the script: every stage_in in the script's order, then every stage_out. NULL: it is on demand.
    position    INTEGER,
    -- Source and destination as the directive has them; NULL where it is on demand.
    source      TEXT,
    destination TEXT,
    direction   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    -- The persistent buffer that is copied from or to; empty: the token's own instance.
    buffer      TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    buffer_path TEXT NOT NULL,
    pfs_path    TEXT NOT NULL,
    -- Whose rights apply.
    owner_uid   INTEGER NOT NULL,
    owner_gid   INTEGER NOT NULL,
    state       TEXT NOT NULL,
    -- The file's size as far as who asked knows, until it fails with others: what then has none runs alone.
    size_hint   INTEGER,
    -- While it is active, the number of the first of those that one worker copies.
    batch       INTEGER,
    -- The last report, a wire::control::StageStatus.
    report_json TEXT
) STRICT;

INSERT INTO transfers (number, token, job, direction, kind, buffer, access_mode, buffer_path, pfs_path, owner_uid,
    owner_gid, state, size_hint, batch, report_json)
    SELECT number, token, job, direction, kind, '', access_mode, buffer_path, pfs_path, owner_uid,
    owner_gid, state, size_hint, batch, report_json FROM demands ORDER BY number;
-- Nodes may still know the last ones, also those that are forgotten here.
DELETE FROM sqlite_sequence WHERE name = 'transfers';
INSERT INTO sqlite_sequence SELECT 'transfers', seq FROM sqlite_sequence WHERE name = 'demands';

INSERT INTO transfers (token, job, position, source, destination, direction, kind, buffer, access_mode, buffer_path,
    pfs_path, owner_uid, owner_gid, state, report_json)
    SELECT token, token, position, source, destination, direction, kind, buffer, access_mode, buffer_path,
    pfs_path, owner_uid, owner_gid, state, report_json FROM stages JOIN sessions USING (token)
    ORDER BY sessions.number, position;

DROP TABLE demands;
DROP TABLE stages;

CREATE INDEX transfers_by_path ON transfers (token, access_mode, buffer_path);
CREATE INDEX transfers_by_state ON transfers (token, position, state);
CREATE INDEX transfers_by_job ON transfers (job);
CREATE UNIQUE INDEX transfers_of_scripts ON transfers (token, position) WHERE position IS NOT NULL;
