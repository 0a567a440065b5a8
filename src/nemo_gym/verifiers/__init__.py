"""Verifiers: how an answer becomes a reward in [0, 1]."""
