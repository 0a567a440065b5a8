"""Evaluations of checkpoints while a training runs: when, by which process, and what came of them."""
