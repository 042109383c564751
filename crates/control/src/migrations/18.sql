-- How many workers each user has is asked whenever a stage ends, beside hundreds of thousands that are complete.
CREATE INDEX transfers_at_work ON transfers (owner_uid, batch, number) WHERE state = 'active';
CREATE INDEX transfers_in_line ON transfers (owner_uid, token) WHERE state = 'pending';
