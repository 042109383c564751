-- On how many nodes the bytes of files are: 'none' or 'mirror'.
ALTER TABLE instances ADD COLUMN redundancy TEXT NOT NULL DEFAULT 'none';
