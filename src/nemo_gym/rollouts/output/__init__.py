"""The durable files of a run: every planned rollout, its answer and its result, exactly once."""
