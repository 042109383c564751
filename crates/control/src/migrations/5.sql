-- Whether files are drained while the job runs: 'on-close'; NULL: they are not.
ALTER TABLE instances ADD COLUMN drain TEXT;
-- Whether it lives on the flash of the job's own nodes, which are known when it starts.
ALTER TABLE instances ADD COLUMN on_job_nodes INTEGER NOT NULL DEFAULT 0;
