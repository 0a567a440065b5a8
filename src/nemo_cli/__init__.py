"""What the programs `gym` and `nemo` do alike: groups of commands, and errors as sentences."""
