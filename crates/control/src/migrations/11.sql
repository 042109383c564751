-- How often another node has taken the fragment's place.
ALTER TABLE fragments ADD COLUMN term INTEGER NOT NULL DEFAULT 0;
