-- While an instance's key is being changed: the one that its nodes take as well, else empty; and how often the keys were
-- changed.
ALTER TABLE instances ADD COLUMN other_key TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN key_step INTEGER NOT NULL DEFAULT 0;
