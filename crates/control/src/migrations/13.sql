-- The inode in the buffer that a stage-out on demand was asked for, as far as who asked knew.
ALTER TABLE transfers ADD COLUMN source_ino INTEGER;
