"""Experiment trackers: the service tells W&B and MLflow about jobs; trainings themselves never do."""
