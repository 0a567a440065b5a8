"""Slurm from Python: states, commands, scripts and hosts. Standard library only."""
