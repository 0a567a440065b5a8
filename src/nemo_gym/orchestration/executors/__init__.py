"""Executors: where the jobs of a submission run."""
