-- When nodes see what others wrote: 'posix' or 'commit'.
ALTER TABLE instances ADD COLUMN coherence TEXT NOT NULL DEFAULT 'posix';
