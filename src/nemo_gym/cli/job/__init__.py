"""The commands of `gym job`, one module each."""
