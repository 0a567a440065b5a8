"""Pages on which people read evaluations in a browser."""
