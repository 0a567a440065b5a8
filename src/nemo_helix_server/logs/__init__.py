"""The logs of jobs: written by the process of a run, read in pages."""
