-- The number of the schema once more, with a checksum: see state/schema.rs.
CREATE TABLE schema (version INTEGER NOT NULL, crc32c INTEGER) STRICT;
INSERT INTO schema (version) VALUES (0);
