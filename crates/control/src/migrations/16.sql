-- What an instance is, a word of its pool's kind. It was told from `on_job_nodes` and its access modes.
ALTER TABLE instances ADD COLUMN kind TEXT NOT NULL DEFAULT 'storage';
UPDATE instances SET kind = CASE
    WHEN on_job_nodes AND (SELECT group_concat(access_mode) FROM namespaces
        WHERE namespaces.token = instances.token) = 'private' THEN 'node-local'
    WHEN on_job_nodes THEN 'node-local-striped'
    -- The pool of one machine, to which no node registers.
    WHEN pool = 'local' AND NOT EXISTS (SELECT 1 FROM nodes) THEN 'disk'
    ELSE 'storage' END;
ALTER TABLE instances DROP COLUMN on_job_nodes;
