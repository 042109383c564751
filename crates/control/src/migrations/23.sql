-- What a user has asked for is counted, paged and started by user, beside hundreds of thousands of stages of others.
CREATE INDEX transfers_of_user ON transfers (owner_uid, state, position) WHERE position IS NULL;
CREATE INDEX transfers_of_user_by_path ON transfers (token, access_mode, owner_uid, buffer_path, state, kind,
    direction, position)
    WHERE position IS NULL;
-- What a status shows of a job, and what its end waits for, is found by state.
DROP INDEX transfers_by_job;
CREATE INDEX transfers_by_job ON transfers (job, state, position);
-- From which host a node has registered: an address, `here`, or nothing where that was not noted.
ALTER TABLE nodes ADD COLUMN host TEXT NOT NULL DEFAULT '';
