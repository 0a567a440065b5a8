"""The command-line program `nemo`."""
