"""Filters of lists: their spellings, and the one tree that all become."""
