"""The commands of `gym eval`, one module each."""
