-- What the options of its directive say of an instance, a model::directive::Behaviour as JSON: one column for all.
ALTER TABLE instances ADD COLUMN behaviour TEXT NOT NULL DEFAULT '{}';
UPDATE instances SET behaviour = json_object('coherence', coherence, 'redundancy', redundancy, 'drain', drain);
ALTER TABLE instances DROP COLUMN coherence;
ALTER TABLE instances DROP COLUMN redundancy;
ALTER TABLE instances DROP COLUMN drain;
