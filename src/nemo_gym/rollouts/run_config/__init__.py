"""What a collector is asked to do: the configuration of a run, and where benchmarks are found."""
