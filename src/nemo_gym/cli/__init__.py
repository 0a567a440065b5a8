"""The command-line program `gym`."""
