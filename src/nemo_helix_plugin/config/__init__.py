"""Contexts: which service, as whom, in which workspace; one file that environment and flags override."""
