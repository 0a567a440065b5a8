"""A folder for each backend: which fields it supports, its resolved spec, and what its engine is told."""
