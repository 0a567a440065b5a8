"""The commands of `nemo`, one module or folder for each group."""
