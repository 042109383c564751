-- A checksum of each row's other columns, see state/sums.rs. NULL: the row was written by hand, and is summed at the
-- next start.
ALTER TABLE counters ADD COLUMN crc32c INTEGER;
ALTER TABLE sessions ADD COLUMN crc32c INTEGER;
ALTER TABLE instances ADD COLUMN crc32c INTEGER;
ALTER TABLE fragments ADD COLUMN crc32c INTEGER;
ALTER TABLE namespaces ADD COLUMN crc32c INTEGER;
ALTER TABLE private_namespaces ADD COLUMN crc32c INTEGER;
ALTER TABLE activations ADD COLUMN crc32c INTEGER;
ALTER TABLE registrations ADD COLUMN crc32c INTEGER;
ALTER TABLE transfers ADD COLUMN crc32c INTEGER;
ALTER TABLE timings ADD COLUMN crc32c INTEGER;
ALTER TABLE nodes ADD COLUMN crc32c INTEGER;
ALTER TABLE leftovers ADD COLUMN crc32c INTEGER;
ALTER TABLE life ADD COLUMN crc32c INTEGER;
