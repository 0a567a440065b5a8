"""Fixtures of the real Slurm."""

from tests.slurm.lab import slurm, slurm_alone, slurm_lab

__all__ = ["slurm", "slurm_alone", "slurm_lab"]
