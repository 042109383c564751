-- The life of the database, drawn at each start of control: what is kept beside it belongs to one.
CREATE TABLE life (word TEXT NOT NULL) STRICT;
