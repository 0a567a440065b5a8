"""A folder for each backend: which fields it supports, its resolved spec, and the input of its engine."""
