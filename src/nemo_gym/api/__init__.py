"""Evaluations from Python: what `nemo_gym` offers by name, made of the same parts as the commands."""
