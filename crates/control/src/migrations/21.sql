-- The permission bits of the roots of a buffer. Nodes keep them, and compare what they are told with that.
ALTER TABLE sessions ADD COLUMN root_mode INTEGER NOT NULL DEFAULT 448; -- 0700
UPDATE sessions SET root_mode = 1023 WHERE shared; -- 01777
