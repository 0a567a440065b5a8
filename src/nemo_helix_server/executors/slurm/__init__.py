"""Runs steps as jobs of a Slurm cluster, reached from this machine or over ssh."""
