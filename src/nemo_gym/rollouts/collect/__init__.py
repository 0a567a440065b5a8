"""The collector: rollouts in parallel, until all are there or it is asked to stop."""
