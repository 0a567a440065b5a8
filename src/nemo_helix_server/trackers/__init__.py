"""Experiment trackers: the service reports jobs to W&B and MLflow; trainings themselves never do."""
