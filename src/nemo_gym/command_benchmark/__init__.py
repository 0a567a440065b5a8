"""Benchmarks that are another program's: a command that asks the model itself, and writes results."""
