-- Whether the fragment was made on its node: 'new' (not known to be), 'there', or 'replacing' (it takes the place of one that
-- is lost, and is not known to be made).
ALTER TABLE fragments ADD COLUMN state TEXT NOT NULL DEFAULT 'there';
