"""Which submissions there are, and where their files are."""
