"""Random faults under chains on a real Slurm of their own."""
