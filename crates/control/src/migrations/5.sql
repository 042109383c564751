-- When what a job is to leave on the PFS is copied there.

ALTER TABLE instances ADD COLUMN drain TEXT NOT NULL DEFAULT 'at_end';
