-- Whether control stages out and releases by itself what was set aside, whatever becomes of it meanwhile.
ALTER TABLE sessions ADD COLUMN to_finish INTEGER NOT NULL DEFAULT 0;
