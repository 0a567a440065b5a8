"""Processes: identities, trees, and one command under supervision."""
