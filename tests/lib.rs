//! End-to-end tests: the real processes, real mounts, real programs.
