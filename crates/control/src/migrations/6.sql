-- What proves to an instance's nodes that control gave a stage: what mounts are told does not. Empty: they have none.
ALTER TABLE instances ADD COLUMN stage_key TEXT NOT NULL DEFAULT '';
