"""A cluster that is not there, with a clock that you move: for tests of what works with Slurm.

`FakeCluster` is a `nemo_slurm.cluster.Cluster` like any other. Given a folder, it also puts the programs
(``sbatch``, ``squeue``, ``sacct``, ``scancel``, ``scontrol``, ``srun``, ``sacctmgr``) on a PATH and can run
the scripts of its jobs with a real bash. What it does beyond a plain cluster is said by its `Faults`.
"""

from nemo_slurm.testing.fake import FakeCluster
from nemo_slurm.testing.jobs import FakeJob, Faults

__all__ = ["FakeCluster", "FakeJob", "Faults"]
