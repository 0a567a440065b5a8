"""The rows of a benchmark: prepared, read and checked."""
