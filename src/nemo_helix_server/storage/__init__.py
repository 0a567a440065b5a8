"""The data directory: folders of jobs, checkpoints, artifacts and secret values."""
